// Draws plotly figures that the page carries as JSON: <script type="application/json"> beside <div data-chart>.
(function () {
  const source = document.currentScript.dataset.plotly;
  let library = null;

  function load() {
    library ||= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = () => reject(new Error("plotly could not be loaded"));
      document.head.append(script);
    });
    return library;
  }

  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(layout) {
    const axis = { color: token("--gantry-chart-text"), gridcolor: token("--gantry-chart-grid") };
    return {
      ...layout,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: token("--tblr-font-sans-serif") || "sans-serif", size: 12, color: token("--gantry-chart-text") },
      xaxis: { ...layout.xaxis, ...axis, linecolor: token("--gantry-chart-grid") },
      yaxis: { ...layout.yaxis, ...axis },
    };
  }

  async function draw(element) {
    const figure = JSON.parse(document.getElementById(element.dataset.chart).textContent);
    await load();
    if (!element.isConnected) return;
    const config = { displaylogo: false, responsive: true, displayModeBar: false };
    window.Plotly.react(element, figure.data, themed(figure.layout || {}), config);
  }

  function drawAll(root) {
    const own = root.matches?.("[data-chart]") ? [root] : [];
    for (const element of [...own, ...root.querySelectorAll("[data-chart]")]) draw(element);
  }

  document.addEventListener("htmx:load", (event) => drawAll(event.detail.elt));
  document.addEventListener("htmx:beforeCleanupElement", (event) => {
    if (event.detail.elt.matches?.("[data-chart]") && window.Plotly) window.Plotly.purge(event.detail.elt);
  });
  document.addEventListener("gantry:theme", () => { if (document.body) drawAll(document.body); });
})();
