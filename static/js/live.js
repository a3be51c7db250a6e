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
    const { elt, requestConfig, xhr } = event.detail;
    ofTheClock = isOfTheClock(elt, requestConfig?.triggeringEvent);
    // An outage stands in the part, which goes on asking.
    if (ofTheClock && [502, 503].includes(xhr?.status)) event.detail.swapOverride = "innerHTML";
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

  // What a stream brings is shown as what the clock asked for.
  function swap(part, html, swapStyle) {
    window.htmx.trigger(part, "htmx:beforeSwap", { elt: part, requestConfig: {} });
    window.htmx.swap(part, html, { swapStyle, swapDelay: 0, settleDelay: 20 }, { contextElement: part, eventInfo: { elt: part } });
  }
  function show(part, html, digest) {
    const path = part.getAttribute("hx-get");
    swap(part, html, "morph:outerHTML");
    marks.set(part.isConnected ? part : document.getElementById(part.id) ?? part, { path, digest });
  }
  function showOutage(part, html) {
    marks.delete(part);
    swap(part, html, "innerHTML");
  }
  // What may be seen no longer is not left standing, and asked for no more.
  function refuse(part, reason) {
    const told = document.createElement("div");
    told.className = "alert alert-warning";
    told.setAttribute("role", "status");
    told.textContent = reason;
    swap(part, told.outerHTML, "outerHTML");
  }
  document.addEventListener("htmx:responseError", (event) => {
    const { elt, requestConfig, xhr } = event.detail;
    if (!isOfTheClock(elt, requestConfig?.triggeringEvent) || ![403, 404].includes(xhr.status)) return;
    if (xhr.getResponseHeader("Content-Type")?.startsWith("text/plain")) refuse(elt, xhr.responseText);
  });

  const ask = (parts) => parts.forEach((part) => window.htmx.ajax("GET", part.getAttribute("hx-get"), { source: part }));
  const mark = (part) => (marks.get(part)?.path === part.getAttribute("hx-get") ? marks.get(part).digest : "");
  // stream.js says which parts a stream looks after; `others` are parts that no element asks for.
  const live = { ask, mark, refuse, show, showOutage, others: [], isStreamed: () => false, changed: () => {} };
  window.gantryLive = live;

  // A hidden tab asks nothing, and everything once it is seen again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, requestConfig } = event.detail;
    if (!isOfTheClock(elt, requestConfig?.triggeringEvent)) return;
    if (document.hidden || live.isStreamed(elt)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    // Once there is a stream again, if there is to be one.
    setTimeout(() => ask([...document.querySelectorAll(LIVE)].filter((part) => !live.isStreamed(part))));
  });
})();
