// The policy editor: line numbers, the faulty line marked, examples to start from, and tidy JSON.
(function () {
  const editors = (root) => root.querySelectorAll("[data-policy-editor]");

  // One row a line, drawn behind the text: its number, and a band where the check found something.
  function draw(editor) {
    const area = editor.querySelector("textarea");
    const marks = editor.querySelector(".policy-marks");
    const count = area.value.split("\n").length;
    const bad = new Map();
    for (const found of editor.querySelectorAll("[data-policy-line]")) {
      const line = Number(found.dataset.policyLine);
      if (!bad.get(line)) bad.set(line, "policyWarning" in found.dataset ? "warned" : "wrong");
    }
    const rows = [];
    for (let line = 1; line <= count; line += 1) {
      const row = document.createElement("div");
      row.className = `policy-row ${bad.get(line) || ""}`;
      row.textContent = String(line);
      rows.push(row);
    }
    marks.replaceChildren(...rows);
    marks.scrollTop = area.scrollTop;
  }

  function jump(editor, line, column) {
    const area = editor.querySelector("textarea");
    const lines = area.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
    area.focus();
    area.setSelectionRange(at, at);
    area.scrollTop = (line - 4) * parseFloat(getComputedStyle(area).lineHeight);
  }

  function replace(editor, text) {
    const area = editor.querySelector("textarea");
    area.value = text;
    draw(editor);
    window.htmx.trigger(editor.querySelector(".policy-field"), "policy-changed");
  }

  document.addEventListener("click", (event) => {
    const editor = event.target.closest("[data-policy-editor]");
    if (!editor) return;
    const example = event.target.closest("[data-policy-example]");
    const found = event.target.closest("[data-policy-line]");
    if (example) {
      event.preventDefault();
      example.closest("details").open = false;
      replace(editor, example.dataset.policyExample);
    } else if (event.target.closest("[data-policy-format]")) {
      try {
        replace(editor, JSON.stringify(JSON.parse(editor.querySelector("textarea").value), null, 2));
      } catch {
        // What is no JSON cannot be tidied; the check below the field says where it breaks.
        window.htmx.trigger(editor.querySelector(".policy-field"), "policy-changed");
      }
    } else if (found && event.target.closest(".policy-jump")) {
      const [line, column] = event.target.textContent.match(/\d+/g).map(Number);
      jump(editor, line, column);
    }
  });
  document.addEventListener("input", (event) => {
    const editor = event.target.closest?.("[data-policy-editor]");
    if (editor) draw(editor);
  });
  document.addEventListener("scroll", (event) => {
    const editor = event.target.closest?.("[data-policy-editor]");
    if (editor) editor.querySelector(".policy-marks").scrollTop = event.target.scrollTop;
  }, true);
  document.addEventListener("htmx:load", () => editors(document).forEach(draw));
  document.addEventListener("htmx:afterSettle", () => editors(document).forEach(draw));
})();
