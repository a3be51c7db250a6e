// The messages of a topic as they come: brought by the page's stream or asked for each second, kept back while paused, at rest in a hidden tab.
(function () {
  const MOST = 500, PAUSE_MS = 1000, LONGEST_MS = 15000;
  const say = window.gantryText;
  const GONE = say("You may not read this topic any more; load the page again");
  const AWAY = say("The messages cannot be read now; asked again by itself");
  const card = document.getElementById("tail");
  const rows = card.querySelector("[data-tail-rows]");
  const model = card.querySelector("[data-tail-row]").content.querySelector("tr");
  const form = card.querySelector("[data-tail-form]");
  const status = card.querySelector("[data-tail-status]");
  const pauseButton = card.querySelector("[data-tail-pause]");
  let place = card.dataset.place, paused = false, wait = PAUSE_MS;
  let held = [], seen = 0, shown = 0, skipped = 0;

  const told = (number) => number.toLocaleString("en");

  function tell(trouble) {
    const parts = [];
    if (trouble) parts.push(trouble);
    if (paused) parts.push(say("paused, new messages: %(number)s", { number: told(held.length) }));
    parts.push(seen ? say("messages: %(seen)s came, %(shown)s fit", { seen: told(seen), shown: told(shown) }) : say("Waiting for messages…"));
    if (skipped) parts.push(say("left out: %(number)s, since more came than are shown in a second", { number: told(skipped) }));
    if (rows.childElementCount >= MOST) parts.push(say("the newest %(number)s are kept", { number: MOST }));
    status.textContent = parts.join(" · ");
    status.classList.toggle("text-danger", Boolean(trouble));
  }

  function show(found) {
    rows.prepend(...found);
    while (rows.childElementCount > MOST) rows.lastElementChild.remove();
    for (const row of found) window.htmx.trigger(row, "htmx:load", { elt: row });
  }

  const filters = () => new URLSearchParams(new FormData(form)).toString();
  const path = () => `${card.dataset.tail}?${filters()}&place=${encodeURIComponent(place)}`;

  function made([at, id, position, ...texts]) {
    const row = model.cloneNode(true), time = row.querySelector("time"), link = row.querySelector("a");
    const moment = new Date(Number(at)).toISOString();
    time.dateTime = moment;
    time.title = `${moment.slice(0, -1).replace("T", " ")} UTC`;
    link.textContent = id;
    link.href = `${link.getAttribute("href").slice(0, -2)}${encodeURIComponent(id)}/?at=${encodeURIComponent(position)}`;
    [texts[0], texts[1], position.split(":").slice(-2).join(" / "), texts[2]].forEach((text, n) => (row.cells[n + 2].textContent = text));
    return row;
  }

  // Cells are told by what differs from the line above (console/messaging/tail.py).
  function rowsOf(text) {
    let at = 0, id = "", above = [];
    const offsets = new Map();
    const shared = (before, cell) => [...(before ?? "")].slice(0, cell.charCodeAt(0) - 48).join("") + cell.slice(1);
    return text.split("\n").filter(Boolean).map((line) => {
      const [back, number, ...cells] = line.split("\t");
      at -= Number(back);
      id = number[0] === "-" ? (BigInt(`0x${id}`) - BigInt(`0x${number.slice(1)}`)).toString(16).toUpperCase().padStart(32, "0") : shared(id, number);
      above = cells.map((cell, n) => shared(above[n], cell));
      const [broker, queue, offset = offsets.get(`${broker}:${queue}`)] = above[0].split(":");
      offsets.set(`${broker}:${queue}`, offset - 1);
      return made([at, id, `${broker}:${queue}:${offset}`, ...above.slice(1)]);
    });
  }

  // A place as a whole, or how far each queue went on.
  function moved(told) {
    if (told[0] !== "+") return told || place;
    const steps = told.slice(1).split(",");
    return place.split(",").map((one, n) => one.replace(/\d+$/, (offset) => Number(offset) + Number(steps[n]))).join(",");
  }

  // What came, from a stream or an answer; `told` gives what its headers say.
  function take(text, told) {
    place = moved(told("Place"));
    seen += Number(told("Seen"));
    skipped += Number(told("Skipped"));
    const found = rowsOf(text);
    shown += found.length;
    if (paused) held = [...found, ...held].slice(0, MOST);
    else if (found.length) show(found);
  }

  async function ask() {
    const answer = await fetch(path(), { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    // A stream that began meanwhile brings the same.
    if (window.gantryLive.isStreamed(streamed)) return "";
    if (answer.redirected || answer.status === 401 || answer.status === 403) return GONE;
    if (answer.status === 422) return (await answer.text()).slice(0, 300).replace(/\.$/, "");
    if (!answer.ok) return AWAY;
    take(await answer.text(), (name) => answer.headers.get(`X-Gantry-Tail-${name}`));
    return "";
  }

  // The page's stream brings them too; while there is none this asks by itself.
  const streamed = {
    seconds: 1, path, key: filters,
    hear(kind, { html, told }) {
      if (kind === "part") take(html, (name) => told?.[`X-Gantry-Tail-${name}`] ?? "");
      if (kind !== "yours") tell(kind === "refused" ? GONE : kind === "outage" ? AWAY : "");
    },
  };
  window.gantryLive.others.push(streamed);

  async function turn() {
    if (window.gantryLive.isStreamed(streamed)) wait = PAUSE_MS;
    else if (!document.hidden) {
      let trouble = "";
      try {
        trouble = await ask();
      } catch {
        trouble = say("Gantry does not answer; asked again by itself");
      }
      tell(trouble);
      wait = trouble ? Math.min(LONGEST_MS, wait * 2) : PAUSE_MS;
    }
    setTimeout(turn, wait);
  }

  pauseButton.addEventListener("click", () => {
    paused = !paused;
    pauseButton.textContent = paused ? say("Go on") : say("Pause");
    pauseButton.setAttribute("aria-pressed", String(paused));
    if (!paused) {
      show(held);
      held = [];
    }
    tell("");
  });
  card.querySelector("[data-tail-clear]").addEventListener("click", () => {
    rows.replaceChildren();
    held = [];
    seen = shown = skipped = 0;
    tell("");
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    wait = PAUSE_MS;
    window.gantryLive.changed();
  });
  turn();
})();
