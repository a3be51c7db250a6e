// Statistics pages: dragging over the curves asks for that part of them, by an address that others can open too; and
// the curves as a picture, in the colours of the page.
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
    for (const button of document.querySelectorAll("[data-png]")) button.hidden = false;
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

  function loaded(address) {
    const image = new Image();
    return new Promise((resolve, reject) => {
      image.onload = () => resolve(image);
      image.onerror = () => reject(new Error("the picture could not be drawn"));
      image.src = address;
    });
  }

  // By way of an SVG in a data: address: plotly's own PNG goes through blob: pictures, which the page does not allow.
  async function picture(chart) {
    const scale = 2, { clientWidth: width, clientHeight: height } = chart;
    const layout = { ...chart.layout, showlegend: true, legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom" } };
    layout.margin = { ...layout.margin, t: 64 };
    const figure = { data: chart.data, layout };
    const image = await loaded(await window.Plotly.toImage(figure, { format: "svg", width, height }));
    const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(chart.closest(".card")).backgroundColor;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-png]");
    const chart = button?.closest(".card").querySelector("[data-chart]");
    if (!chart) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await picture(chart));
    link.download = button.dataset.png;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
})();
