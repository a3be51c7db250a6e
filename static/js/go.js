// Go anywhere: Ctrl-K and its list of places, the keys of every page (docs/use/keys.md), and where the navigation was.
(function () {
  const RECENT = "gantry-recent", MOST = 6;
  const leaders = { o: "/", t: "topics", g: "groups", m: "messages", s: "sql", a: "alarms" };
  let led = 0;

  const dialog = () => document.getElementById("go");
  const input = () => dialog().querySelector("[role=combobox]");
  const results = () => document.getElementById("go-results");
  const options = () => [...results().querySelectorAll("[role=option]")];
  const who = () => document.body.dataset.user || "";
  const types = (element) => element.closest?.("input, textarea, select, [contenteditable], .CodeMirror, dialog[open]");

  function recent() {
    try {
      const kept = JSON.parse(localStorage.getItem(RECENT)) || {};
      if (kept.user === who() && Array.isArray(kept.places)) return kept.places;
      localStorage.removeItem(RECENT); // somebody else's
    } catch { /* storage that is off or broken: there is nothing recent */ }
    return [];
  }

  function remember(option) {
    const text = (part) => option.querySelector(part).textContent;
    const place = { url: option.getAttribute("href"), kind: text(".go-kind"), name: text(".go-name"), note: text(".go-note") };
    const places = [place, ...recent().filter((one) => one.url !== place.url)].slice(0, MOST);
    try { localStorage.setItem(RECENT, JSON.stringify({ user: who(), places })); } catch { /* as above */ }
  }

  function showRecent() {
    const places = recent();
    const known = new Set(options().map((option) => option.getAttribute("href")));
    for (const place of places.reverse()) {
      if (!place.url.startsWith("/") || place.url.startsWith("//")) continue;
      if (known.has(place.url)) results().querySelector(`[href="${CSS.escape(place.url)}"]`)?.remove();
      const option = document.createElement("a");
      option.className = "go-place";
      option.setAttribute("role", "option");
      option.tabIndex = -1;
      option.href = place.url;
      for (const part of ["kind", "name", "note"]) {
        const span = document.createElement("span");
        span.className = `go-${part}`;
        span.textContent = place[part];
        option.append(span);
      }
      results().prepend(option);
    }
    options().forEach((option, number) => { option.id = `go-${number + 1}`; });
  }

  function choose(number) {
    const all = options();
    all.forEach((option, place) => option.setAttribute("aria-selected", String(place === number)));
    if (all[number]) {
      input().setAttribute("aria-activedescendant", all[number].id);
      all[number].scrollIntoView({ block: "nearest" });
    } else input().removeAttribute("aria-activedescendant");
  }

  const chosen = () => options().findIndex((option) => option.getAttribute("aria-selected") === "true");

  function open() {
    if (!dialog() || dialog().open) return;
    dialog().showModal();
    input().value = "";
    results().replaceChildren();
    input().focus();
    input().dispatchEvent(new Event("gantry:go"));
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id !== "go-results") return;
    if (!input().value.trim()) showRecent();
    choose(0);
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-go]")) open();
    const option = event.target.closest(".go-place");
    if (option) remember(option);
    if (event.target === dialog()) dialog().close(); // beside it
  });

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-go-form]")) return;
    event.preventDefault();
    options()[chosen()]?.click();
  });

  function lead(key) {
    const wanted = leaders[key];
    const link = [...document.querySelectorAll(".sidebar-link")].find((one) =>
      wanted === "/" ? one.pathname === "/" : one.pathname.split("/").includes(wanted));
    link?.click();
  }

  // What scrolls sideways is reached by keys: by what is in it, or else by itself.
  function letScroll() {
    for (const box of document.querySelectorAll(".table-scroll, .table-responsive")) {
      if (box.scrollWidth > box.clientWidth && !box.querySelector("a[href], button, input, summary")) box.tabIndex = 0;
    }
  }

  document.addEventListener("htmx:load", letScroll);
  window.addEventListener("resize", letScroll);

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      if (!dialog()) return;
      event.preventDefault();
      open();
    } else if (dialog()?.open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      const count = options().length;
      if (count) choose((chosen() + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey && !types(event.target)) {
      if (Date.now() - led < 1500 && event.key in leaders) {
        event.preventDefault();
        lead(event.key);
        led = 0;
      } else if (event.key === "g") led = Date.now();
      else if (event.key === "/") {
        const field = document.querySelector("#main input[type=search]");
        if (field) { event.preventDefault(); field.focus(); field.select(); }
      } else if (event.key === "?") document.getElementById("keys")?.showModal();
    }
  });

  // The side navigation stays where it was scrolled to.
  const sidebar = document.getElementById("sidebar-menu");
  if (sidebar) {
    sidebar.scrollTop = Number(sessionStorage.getItem("gantry-sidebar"));
    addEventListener("pagehide", () => sessionStorage.setItem("gantry-sidebar", String(sidebar.scrollTop)));
  }
})();
