// The editor of a SQL job: what is sent is the whole text; errors stand at their line, and a draft is not lost.
(function () {
  if (!window.gantrySql) return;
  const { editor, form, mark, placed, names } = window.gantrySql;
  const TABLE = /\bcreate\s+(?:temporary\s+)?(?:table|view)\s+(?:if\s+not\s+exists\s+)?(`[^`]+`|\w+)\s*(\((?:[^()']|'[^']*'|\([^()]*\))*\))?/gi;
  const COLUMN = /^\s*(`[^`]+`|[A-Za-z_]\w*)\s+([A-Za-z]\w*)/;
  const bare = (name) => name.replace(/^`|`$/g, "");
  const status = form.querySelector("[data-job-unsaved]");
  let said = status.textContent;
  let kept = editor.getValue();

  // Columns of the definition in brackets: its parts between commas that are in no brackets of their own.
  function columns(text) {
    const parts = [""];
    let depth = 0;
    for (const sign of text.slice(1, -1)) {
      depth += "(<".includes(sign) ? 1 : ")>".includes(sign) ? -1 : 0;
      if (sign === "," && depth === 0) parts.push("");
      else parts[parts.length - 1] += sign;
    }
    const found = parts.map((part) => part.match(COLUMN)).filter((part) => part && !/^(watermark|primary)$/i.test(part[1]));
    return found.map(([, name, type]) => [bare(name), type.toLowerCase()]);
  }

  function define() {
    const tables = [...editor.getValue().matchAll(TABLE)].slice(0, 200);
    names.define(Object.fromEntries(tables.map(([, name, body]) => [bare(name), body ? columns(body) : []])));
  }

  const isChanged = () => editor.getValue() !== kept;
  const tell = () => (status.textContent = isChanged() ? window.gantryText("Changes are not saved yet.") : said);

  let timer = 0;
  editor.on("change", () => {
    tell();
    clearTimeout(timer);
    timer = setTimeout(define, 300);
  });
  editor.on("focus", define);
  editor.addKeyMap({ "Ctrl-S": save, "Cmd-S": save });
  function save() {
    const button = form.querySelector("button[value=save]");
    if (button) form.requestSubmit(button);
  }

  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt === form) event.detail.parameters.text = editor.getValue();
  });

  document.addEventListener("htmx:load", (event) => {
    const outcome = event.detail.elt;
    if (outcome.id !== "job-outcome") return;
    const changed = outcome.querySelector("[data-job-text]");
    if (changed) {
      const { left, top } = editor.getScrollInfo();
      const cursor = editor.getCursor();
      editor.setValue(changed.content.textContent);
      editor.setCursor(cursor);
      editor.scrollTo(left, top);
    }
    const told = outcome.querySelector("[data-job-kept]");
    if (told) {
      kept = editor.getValue();
      said = told.textContent;
    }
    tell();
    mark(...outcome.querySelectorAll("[data-job-place]"));
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-job-place]");
    if (!button) return;
    editor.setCursor(placed(button));
    editor.scrollIntoView(null, 80);
    editor.focus();
  });

  window.addEventListener("beforeunload", (event) => {
    if (isChanged()) event.preventDefault();
  });
  form.addEventListener("submit", () => (kept = window.htmx ? kept : editor.getValue()));
  const line = Number(new URLSearchParams(location.search).get("line"));
  if (line > 0 && line <= editor.lineCount()) {
    editor.setCursor({ line: line - 1, ch: 0 });
    editor.addLineClass(line - 1, "background", "job-failed-line");
    editor.scrollIntoView(null, 120);
  }
  define();
})();
