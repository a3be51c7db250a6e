// Live parts: they ask again by themselves, keep what the reader has open, typed and selected, and rest in a hidden tab.
(function () {
  const LIVE = '[hx-get][hx-trigger*="every "]';
  // A request that no event caused is one of the clock.
  const isOfTheClock = (element, cause) => !cause && Boolean(element.matches?.(LIVE));

  // What the reader did to an element outlives the server's newer picture of it.
  const isReaders = (name, element) => {
    if (name === "open") return element.matches("details, dialog");
    if (name === "value") return element.matches("input, textarea") && element.value !== element.defaultValue;
    if (name === "checked") return element.matches("input") && element.checked !== element.defaultChecked;
    if (name === "selected") return element.matches("option") && element.selected !== element.defaultSelected;
    return false;
  };
  let ofTheClock = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    ofTheClock = isOfTheClock(event.detail.elt, event.detail.requestConfig?.triggeringEvent);
  });
  const callbacks = window.Idiomorph.defaults.callbacks;
  callbacks.beforeAttributeUpdated = (name, element) => !(ofTheClock && isReaders(name, element));
  callbacks.beforeNodeMorphed = (before, after) => {
    if (!(before instanceof Element) || !(after instanceof Element)) return true;
    // charts.js draws the new figure into the old picture.
    if (before.matches("[data-chart]") && after.matches("[data-chart]")) return before.id !== after.id;
    if (!before.matches("time[datetime]") || !after.matches("time[datetime]")) return true;
    // app.js has put the time in the reader's words already; another one it will.
    if (before.dateTime === after.dateTime) return false;
    delete before.dataset.shown;
    return true;
  };

  // The server answers 204 as long as the mark of what a live part shows is that of what it would say.
  let marks = new WeakMap();
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, path, headers, triggeringEvent } = event.detail;
    if (!isOfTheClock(elt, triggeringEvent)) return;
    const mark = marks.get(elt);
    headers["X-Gantry-Live"] = mark?.path === path ? mark.digest : "none";
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    // What a reader asked for may have changed what a live part shows.
    if (event.detail.requestConfig?.triggeringEvent) marks = new WeakMap();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const digest = event.detail.xhr?.getResponseHeader("X-Gantry-Live");
    if (digest) marks.set(event.detail.elt, { path: event.detail.pathInfo.requestPath, digest });
  });

  // A hidden tab asks nothing, and everything once it is seen again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, requestConfig } = event.detail;
    if (document.hidden && isOfTheClock(elt, requestConfig?.triggeringEvent)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    for (const element of document.querySelectorAll(LIVE)) {
      window.htmx.ajax("GET", element.getAttribute("hx-get"), { source: element });
    }
  });
})();
