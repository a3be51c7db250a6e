// Lists whose rows are chosen: how many are, said as they change, and a head that ticks and unticks with them.
(function () {
  function tell() {
    const bar = document.querySelector("[data-bulk]");
    if (!bar) return;
    const boxes = [...document.querySelectorAll(`input[name="${bar.dataset.bulk}"]`)];
    const ticked = boxes.filter((box) => box.checked).length;
    const all = bar.querySelector("[data-bulk-all]");
    if (!ticked) all.checked = false;
    bar.querySelector("[data-bulk-count]").textContent = all.checked ? all.dataset.bulkAll : String(ticked);
    const head = document.querySelector(`[data-check-all="${bar.dataset.bulk}"]`);
    if (!head) return;
    head.checked = ticked > 0 && ticked === boxes.length;
    head.indeterminate = ticked > 0 && ticked < boxes.length;
  }
  // After app.js, whose head ticks the boxes.
  document.addEventListener("change", tell);
  document.addEventListener("htmx:afterSettle", tell);
  window.addEventListener("pageshow", tell);
})();
