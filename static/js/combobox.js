// A text field with a list below it that the server searches: arrows, Enter, Escape, or the mouse.
(function () {
  const box = (element) => element?.closest?.("[data-combobox]");
  const input = (holder) => holder.querySelector("input");
  const list = (holder) => holder.querySelector("[role=listbox]");
  const timers = new WeakMap();

  function close(holder) {
    clearTimeout(timers.get(holder));
    list(holder).hidden = true;
    input(holder).setAttribute("aria-expanded", "false");
    input(holder).removeAttribute("aria-activedescendant");
  }

  async function open(holder) {
    const field = input(holder);
    const other = holder.dataset.depends && field.form.elements[holder.dataset.depends];
    const query = new URLSearchParams({ q: field.value, ...(other ? { [other.name]: other.value } : {}) });
    const answer = await fetch(`${holder.dataset.url}?${query}`);
    if (!answer.ok || document.activeElement !== field) return;
    const parsed = new DOMParser().parseFromString(`<ul>${await answer.text()}</ul>`, "text/html");
    list(holder).replaceChildren(...parsed.querySelectorAll("li"));
    list(holder).hidden = false;
    field.setAttribute("aria-expanded", "true");
  }

  function later(holder) {
    clearTimeout(timers.get(holder));
    timers.set(holder, setTimeout(() => open(holder), 200));
  }

  function select(holder, option) {
    for (const one of list(holder).children) one.setAttribute("aria-selected", String(one === option));
    input(holder).setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function choose(holder, option) {
    input(holder).value = option.dataset.value;
    close(holder);
    for (const other of input(holder).form.querySelectorAll(`[data-depends="${input(holder).name}"] input`)) other.value = "";
  }

  document.addEventListener("input", (event) => box(event.target) && later(box(event.target)));
  document.addEventListener("focusin", (event) => {
    const holder = box(event.target);
    if (holder && !event.target.value) later(holder);
  });
  document.addEventListener("focusout", (event) => box(event.target) && close(box(event.target)));
  // Before the field loses the focus, which would close the list.
  document.addEventListener("mousedown", (event) => {
    const option = event.target.closest?.("[role=option]");
    if (!option || !box(option)) return;
    event.preventDefault();
    choose(box(option), option);
  });
  document.addEventListener("keydown", (event) => {
    const holder = box(event.target);
    if (!holder) return;
    const options = [...list(holder).querySelectorAll("[role=option]")];
    const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const shown = !list(holder).hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!shown) open(holder);
      else if (options.length) select(holder, options[(at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length]);
    } else if (event.key === "Enter") {
      event.preventDefault(); // the form runs the statement; here Enter only chooses
      if (shown && options.length) choose(holder, options[Math.max(at, 0)]);
    } else if (event.key === "Escape" && shown) {
      event.stopPropagation();
      close(holder);
    }
  });
})();
