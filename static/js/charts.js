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

  // Colours of a figure may be names of properties: "--spark-blue", or "--spark-blue/1f" with its opacity.
  function coloured(value) {
    if (typeof value === "string" && value.startsWith("--")) {
      const [name, opacity = ""] = value.split("/");
      return token(name) + opacity;
    }
    if (Array.isArray(value)) return typeof value[0] === "object" ? value.map(coloured) : value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, coloured(of)]));
  }

  function themed(layout) {
    const grid = token("--gantry-chart-grid"), axis = { color: token("--gantry-chart-text"), gridcolor: grid };
    const axes = Object.keys(layout).filter((key) => /^[xy]axis/.test(key));
    return {
      ...layout,
      ...Object.fromEntries(axes.map((key) => [key, { ...layout[key], ...axis, linecolor: grid }])),
      autosize: true,
      // A finger that moves over a chart scrolls the page.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: token("--tblr-font-sans-serif") || "sans-serif", size: 12, color: token("--gantry-chart-text") },
      // Plotly knows no oklch(), in which Tabler's own colours are.
      hoverlabel: { bgcolor: token("--gantry-page-bg"), bordercolor: grid, font: { color: token("--gantry-chart-text") } },
    };
  }

  async function draw(element) {
    const figure = JSON.parse(document.getElementById(element.dataset.chart).textContent);
    await load();
    if (!element.isConnected) return;
    const config = { displaylogo: false, responsive: true, displayModeBar: false };
    window.Plotly.react(element, coloured(figure.data), themed(coloured(figure.layout || {})), config);
    element.dispatchEvent(new CustomEvent("gantry:drawn", { bubbles: true }));
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
