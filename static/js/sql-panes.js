// Results: panes that fold and close, and cells that are walked with the arrow keys and copied.
(function () {
  function fold(pane, folded) {
    pane.classList.toggle("folded", folded);
    pane.querySelector("[data-sql-fold]").setAttribute("aria-expanded", String(!folded));
  }

  document.addEventListener("click", (event) => {
    const pane = event.target.closest("[data-sql-run-pane]");
    if (!pane) return;
    if (event.target.closest("[data-sql-fold]")) fold(pane, !pane.classList.contains("folded"));
    if (event.target.closest("[data-sql-close]")) {
      window.htmx.remove(pane);
      document.querySelector(".CodeMirror textarea")?.focus();
    }
  });

  // A new result stands on top and open; the ones before it are folded.
  document.addEventListener("htmx:load", (event) => {
    const pane = event.detail.elt;
    if (!pane.matches?.("[data-sql-run-pane]")) return;
    for (const other of document.querySelectorAll("[data-sql-run-pane]")) if (other !== pane) fold(other, true);
  });

  const text = (cell) => (cell.querySelector(".sql-null, .sql-empty") ? "" : (cell.querySelector("pre") || cell).textContent);

  async function copy(cell) {
    try {
      await navigator.clipboard.writeText(text(cell));
    } catch {
      return; // the browser asks or refuses; what is selected can still be copied by its own menu
    }
    cell.classList.add("copied");
    setTimeout(() => cell.classList.remove("copied"), 900);
  }

  function step(cell, key) {
    const row = cell.parentElement;
    const rows = [...row.parentElement.rows];
    const at = cell.cellIndex;
    const to = {
      ArrowRight: () => row.cells[at + 1],
      ArrowLeft: () => row.cells[at - 1],
      ArrowDown: () => rows[rows.indexOf(row) + 1]?.cells[at],
      ArrowUp: () => rows[rows.indexOf(row) - 1]?.cells[at],
      Home: () => row.cells[1],
      End: () => row.cells[row.cells.length - 1],
    }[key]?.();
    return to?.matches("td") ? to : null;
  }

  document.addEventListener("keydown", (event) => {
    const grid = event.target.closest?.("[data-sql-grid]");
    if (!grid) return;
    if (event.target === grid && event.key === "ArrowDown") {
      grid.querySelector("tbody td")?.focus();
      event.preventDefault();
      return;
    }
    const cell = event.target.closest("td");
    if (!cell) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "c" && !String(getSelection())) {
      copy(cell);
      event.preventDefault();
    } else if (event.key === "Enter" && cell.querySelector("details") && event.target === cell) {
      const long = cell.querySelector("details");
      long.open = !long.open;
    } else if (event.target === cell) {
      const next = step(cell, event.key);
      if (next) {
        next.focus();
        event.preventDefault();
      }
    }
  });
})();
