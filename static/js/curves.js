// Statistics pages: dragging over the curves asks for that part of them, by an address that others can open too.
(function () {
  const whole = "0000-00-00 00:00:00";
  const second = (text) => (text + whole.slice(text.length)).slice(0, whole.length);
  const utc = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

  // The periods in which the part begins and ends. Times of a figure are texts of the viewer's zone, which sort.
  function periods(times, from, to) {
    const last = times.findLastIndex((time) => time <= second(to));
    return [Math.max(0, times.findLastIndex((time) => time <= second(from))), Math.max(0, last)];
  }

  document.addEventListener("gantry:drawn", (event) => {
    const chart = event.target, holder = chart.closest("[data-zoom]");
    if (!holder) return;
    chart.removeAllListeners("plotly_relayout");
    chart.on("plotly_relayout", (changed) => {
      const [from, to] = [changed["xaxis.range[0]"], changed["xaxis.range[1]"]];
      if (!from || !to) return;
      const times = chart.data[0].x, [first, last] = periods(times, from, to);
      if (first === 0 && last === times.length - 1) return;
      const at = (period) => utc(Number(holder.dataset.firstMs) + period * Number(holder.dataset.periodMs));
      location.assign(`${holder.dataset.zoom}&begin=${at(first)}&end=${at(last + 1)}`);
    });
  });
})();
