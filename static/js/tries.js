// A form that shows what it leads to while one types, with a button that tries it.
(() => {
  // What a click has asked for stays until something is typed: a request for what was typed before it comes too late.
  const tried = new WeakSet();
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => event.target.form && tried.delete(event.target.form), true);
  }
  document.addEventListener("htmx:beforeRequest", (event) => {
    const element = event.detail.elt;
    const form = element.closest("form");
    if (element.matches("[data-tries]")) {
      tried.add(form);
      form.querySelectorAll("[data-follows-typing]").forEach((one) => htmx.trigger(one, "htmx:abort"));
    } else if (element.matches("[data-follows-typing]") && tried.has(form)) {
      event.preventDefault();
    }
  });
})();
