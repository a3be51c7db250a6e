// One stream keeps the live parts of a page current (docs/develop/streams.md). While there is none they ask by themselves.
(function () {
  const FIRST_MS = 2000, TICK_MS = 1000, SETTLED_MS = 500;
  // Beyond these a stream is given up: the server says something at once, and every 15 s.
  const UNHEARD_MS = 10000, SILENT_MS = 45000;
  const SHORTEST_MS = 5000, LONGEST_MS = 300000, MOST_PARTS = 16;
  const live = window.gantryLive, address = document.body.dataset.live;
  // What the server would not stream asks by itself, for as long as it asks for the same.
  const left = new Set();

  const part = (element) => ({
    element,
    key: element.getAttribute("hx-get"),
    path: element.getAttribute("hx-get"),
    seconds: /every (\d+)s/.exec(element.getAttribute("hx-trigger"))?.[1] || 15,
    mark: live.mark(element) || "-",
    hear(kind, { html, mark, reason }) {
      if (kind === "part") live.show(element, html, mark);
      if (kind === "outage") live.showOutage(element, html);
      if (kind === "refused") live.refuse(element, reason);
    },
  });
  const other = (one) => ({ key: one.key(), path: one.path(), seconds: one.seconds, mark: "-", hear: one.hear });
  const parts = () =>
    [...[...document.querySelectorAll('[hx-get][hx-trigger*="every "][hx-swap^="morph"]')].map(part), ...live.others.map(other)]
      .filter(({ key }) => !left.has(key)).slice(0, MOST_PARTS);

  // `asked` has the key of each part by the address that the server knows it by.
  let stream = null, next = Infinity, wait = SHORTEST_MS, settling = 0;

  function open(now) {
    const found = parts();
    if (stream || document.hidden || !address || !found.length) return;
    const query = new URLSearchParams(now ? { now: "" } : {});
    for (const { seconds, mark, path } of found) query.append("part", `${seconds} ${mark} ${path}`);
    const asked = new Map(found.map(({ path, key }) => [path, key]));
    const mine = { asked, control: new AbortController(), begun: Date.now(), heard: 0, now };
    stream = mine;
    read(mine, query).then((pause) => end(mine, pause), () => end(mine, null));
  }

  // How long to wait before the next stream, ms; null after a failure.
  async function read(mine, query) {
    const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
    const answer = await fetch(`${address}?${query}`, { headers, signal: mine.control.signal, credentials: "same-origin" });
    if (answer.headers.has("HX-Redirect")) location.href = answer.headers.get("HX-Redirect");
    if (answer.status === 204) return 1000 * Number(answer.headers.get("Retry-After") || 60);
    if (answer.status !== 200 || !answer.headers.get("Content-Type")?.startsWith("text/event-stream")) return null;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      // One that ended as soon as it had begun is no better than none.
      if (done) return Date.now() - mine.begun > SHORTEST_MS ? Math.random() * 2000 : null;
      mine.heard = Date.now();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) if (stream === mine) hear(event);
    }
  }

  function hear(event) {
    const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const kind = field("event");
    if (!kind) return;
    wait = SHORTEST_MS;
    const said = JSON.parse(field("data"));
    if (kind === "redirect") location.href = said.to;
    const key = stream.asked.get(said.path);
    for (const one of parts().filter((found) => found.key === key)) one.hear(kind, said);
    if (kind === "yours") left.add(key);
    if (kind === "yours" || kind === "refused") stream.asked.delete(said.path);
  }

  function end(mine, pause) {
    if (stream !== mine) return;
    stream = null;
    if (pause === null) {
      pause = wait * (1 + Math.random());
      wait = Math.min(LONGEST_MS, wait * 2);
    }
    next = Date.now() + pause;
    // What it was to bring at once is asked for instead.
    const keys = new Set(mine.asked.values());
    if (mine.now && !mine.heard) live.ask(parts().filter((one) => one.element && keys.has(one.key)).map((one) => one.element));
  }

  function close() {
    const mine = stream;
    stream = null;
    mine?.control.abort();
  }

  setInterval(() => {
    if (document.hidden) return;
    if (!stream) {
      if (Date.now() >= next) open(false);
      return;
    }
    // A proxy that keeps what it gets until the end of it lets nothing through: then no stream is of use.
    if (!stream.heard && Date.now() - stream.begun > UNHEARD_MS) wait = LONGEST_MS;
    else if (!stream.heard || Date.now() - stream.heard < SILENT_MS) return;
    const mine = stream;
    end(mine, null);
    mine.control.abort();
  }, TICK_MS);

  // Other parts than those of the stream: the reader chose something, or a part is live no longer.
  function settled() {
    const keys = new Set(parts().map(({ key }) => key));
    const asked = stream && [...stream.asked.values()];
    if (!stream || (keys.size === asked.length && asked.every((key) => keys.has(key)))) return;
    close();
    open(false);
  }
  live.changed = () => {
    clearTimeout(settling);
    settling = setTimeout(settled, SETTLED_MS);
  };
  document.addEventListener("htmx:afterSettle", live.changed);
  document.addEventListener("htmx:afterSwap", (event) => {
    const { target, requestConfig } = event.detail;
    if (!stream || !requestConfig?.triggeringEvent) return;
    // The server would not know what the reader's own answer has put there: another stream is told.
    if (parts().some(({ element }) => element?.contains(target) || target.contains(element))) stream.asked.set("", "");
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (next < Infinity) open(true);
  });
  window.addEventListener("load", () => (next = Date.now() + FIRST_MS));
  live.isStreamed = (one) => {
    const key = one instanceof Element ? one.getAttribute("hx-get") : one.key();
    return Boolean(stream) && [...stream.asked.values()].includes(key);
  };
})();
