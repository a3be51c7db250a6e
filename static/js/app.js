// What every page needs beside htmx: times in the viewer's zone, copying, dialogs, menus, notices.
(function () {
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  // The server renders and reads times in this zone from the next request on.
  if (zone) document.cookie = `gantry_zone=${zone}; path=/; max-age=31536000; SameSite=Lax`;

  function shown(date, precision) {
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    if (precision === "date") return day;
    const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
    return `${day} ${time}${precision === "milliseconds" ? "." + pad(date.getMilliseconds(), 3) : ""}`;
  }

  function age(date) {
    const seconds = Math.floor((Date.now() - date.getTime()) / 1000);
    for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
      if (seconds >= size) {
        const count = Math.floor(seconds / size);
        return window.gantryText(`%(number)s ${name}${count > 1 ? "s" : ""} ago`, { number: count });
      }
    }
    return seconds < 10 ? window.gantryText("just now") : window.gantryText("%(seconds)s seconds ago", { seconds });
  }

  const every = (root, selector) => [...(root.matches?.(selector) ? [root] : []), ...root.querySelectorAll(selector)];

  function showTimes(root) {
    for (const element of every(root, "time[data-time]:not([data-shown])")) {
      const date = new Date(element.dateTime);
      element.title = `${element.title.split(" · ")[0]} · ${window.gantryText("shown in %(zone)s", { zone: zone || window.gantryText("local time") })}`;
      element.textContent = shown(date, element.dataset.time);
      element.dataset.shown = "";
    }
    for (const element of every(root, "time[data-ago]")) element.textContent = age(new Date(element.dateTime));
  }

  function notice(text, level = "danger") {
    const box = document.createElement("div");
    box.className = `alert alert-${level} alert-dismissible notice`;
    box.setAttribute("role", level === "danger" ? "alert" : "status");
    box.textContent = text;
    const close = document.createElement("button");
    close.className = "btn-close";
    close.setAttribute("aria-label", window.gantryText("Close"));
    close.addEventListener("click", () => box.remove());
    box.append(close);
    document.getElementById("notices").replaceChildren(box);
  }

  async function copy(button) {
    const holder = button.closest(".copy-block, .copy-inline");
    const text = button.dataset.copy || holder.querySelector(".copy-text").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      notice(window.gantryText("The browser does not allow this page to copy; select the text instead."), "warning");
      return;
    }
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  }

  function openDialog(dialog) {
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-copy],[data-close-dialog],[data-toggle],[data-theme-choice]");
    for (const menu of document.querySelectorAll("details.dropdown[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    if (!target || target === document.documentElement) return;
    if ("copy" in target.dataset) copy(target);
    if ("closeDialog" in target.dataset) target.closest("dialog").close();
    if ("toggle" in target.dataset) {
      const open = document.querySelector(target.dataset.toggle).classList.toggle("show");
      target.setAttribute("aria-expanded", String(open));
    }
    if ("themeChoice" in target.dataset) {
      window.gantryTheme(target.dataset.themeChoice);
      target.closest("details").open = false;
    }
  });

  // Escape closes a menu and gives the focus back; arrows walk through it.
  document.addEventListener("keydown", (event) => {
    const menu = event.target.closest?.("details.dropdown[open]");
    if (!menu) return;
    if (event.key === "Escape") {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const items = [menu.querySelector("summary"), ...menu.querySelectorAll("a[href], button")];
      const step = event.key === "ArrowDown" ? 1 : -1;
      items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
      event.preventDefault();
    }
  });

  // A box in the head of a list ticks all of its boxes; forms may ask before they are sent.
  document.addEventListener("change", (event) => {
    const all = event.target.closest?.("[data-check-all]");
    if (!all) return;
    const boxes = document.querySelectorAll(`input[name="${all.dataset.checkAll}"]`);
    // Some, such as letters that were sent already, are ticked one by one only.
    for (const box of boxes) box.checked = all.checked && !("checkAlone" in box.dataset);
  });

  // htmx knows which button was clicked; where a script sends the form by a key, only the event tells its button.
  document.addEventListener("htmx:configRequest", (event) => {
    const button = event.detail.triggeringEvent?.submitter;
    if (button?.name) event.detail.parameters[button.name] = button.value;
  });

  // A part that comes anew leaves tables where they were scrolled to, unless there are others now.
  let scrolled = [];
  const tables = () => [...document.querySelectorAll(".table-responsive")];
  document.addEventListener("htmx:beforeSwap", (event) => {
    scrolled = event.detail.requestConfig?.boosted ? [] : tables().map((table) => table.scrollLeft);
  });
  // A list that grows by itself keeps its last entries.
  const shorten = (list) => [...list.children].slice(0, -list.dataset.most).forEach((entry) => entry.remove());
  document.addEventListener("htmx:afterSwap", () => {
    document.querySelectorAll("[data-most]").forEach(shorten);
    const found = tables();
    if (found.length === scrolled.length) found.forEach((table, place) => (table.scrollLeft = scrolled[place]));
  });

  document.addEventListener("htmx:load", (event) => {
    showTimes(event.detail.elt);
    for (const dialog of every(event.detail.elt, "dialog[data-dialog]")) if (!dialog.open) openDialog(dialog);
  });
  document.addEventListener("closeDialog", () => document.querySelector("dialog[open]")?.close());
  document.addEventListener("htmx:responseError", (event) => {
    const xhr = event.detail.xhr;
    const plain = (xhr.getResponseHeader("Content-Type") || "").startsWith("text/plain");
    const reason = plain && xhr.responseText ? xhr.responseText : window.gantryText("The server answered %(status)s.", { status: xhr.status });
    notice(window.gantryText("%(reason)s Request %(request)s", { reason, request: xhr.getResponseHeader("X-Request-Id") || "–" }));
  });
  document.addEventListener("htmx:sendError", () => notice(window.gantryText("The console does not answer. Is it running?")));
  document.addEventListener("htmx:timeout", () => notice(window.gantryText("The console did not answer in time.")));
  // On a narrow screen the tab that is open may stand outside of it.
  document.querySelector(".tabs .nav-link.active")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  setInterval(() => showTimes(document.body), 10000);
})();
