// What goes on around the SQL editor: names and statements that are put into it, the hint, errors, the draft of this tab.
(function () {
  if (!window.gantrySql) return;
  const { editor, form, schema, chosen, mark, placed, names } = window.gantrySql;
  const DRAFT = "gantry-sql-draft";

  function write(text, name) {
    if ([...schema.options].some((option) => option.value === name)) schema.value = name;
    editor.setValue(text);
    editor.focus();
  }

  function insert(element) {
    const { sqlInsert: name, sqlSchema: from } = element.dataset;
    editor.replaceSelection((from && from !== schema.value ? `${names.quoted(from)}.` : "") + names.quoted(name));
    editor.focus();
  }

  const submit = (values) =>
    window.htmx.ajax("POST", form.getAttribute("hx-post"), { source: document.body, target: "#runs", swap: "afterbegin", values });
  const opened = async (url) => (await fetch(url)).json();

  document.addEventListener("click", async (event) => {
    const target = event.target.closest("[data-sql-insert],[data-sql-run],[data-sql-open],[data-sql-again],[data-sql-place]");
    if (!target || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if ("sqlInsert" in target.dataset) insert(target);
    else if ("sqlRun" in target.dataset) {
      if (!editor.getValue().trim()) editor.setValue(target.dataset.sqlRun);
      submit({ text: target.dataset.sqlRun, schema: schema.value, mode: "run" });
    } else if ("sqlPlace" in target.dataset) {
      mark(target);
      editor.setCursor(placed(target));
      editor.focus();
    } else if ("sqlOpen" in target.dataset) {
      const { text, schema: name } = await opened(target.dataset.sqlOpen);
      write(text, name);
    } else submit({ ...(await opened(target.dataset.sqlAgain)), mode: "run" });
  });

  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters } = event.detail;
    if (elt === form) {
      const [text, from] = chosen();
      Object.assign(parameters, { text, from_line: from.line, from_column: from.ch });
    } else if (form.contains(elt) && "text" in parameters) parameters.text = editor.getValue();
    else if (elt.matches("[data-sql-save]") && !parameters.text) Object.assign(parameters, { text: editor.getValue(), schema: schema.value });
    if (elt === form || elt === document.body) document.getElementById("sql-wrong").replaceChildren();
  });
  document.addEventListener("htmx:load", (event) => {
    const root = event.detail.elt;
    const edit = root.querySelector?.("[data-sql-edit]");
    if (edit) editor.replaceRange(edit.dataset.hint, editor.posFromIndex(+edit.dataset.start), editor.posFromIndex(+edit.dataset.end));
    const place = root.querySelector?.("[data-sql-place]");
    if (place) mark(place);
  });

  let timer = 0;
  const check = () => {
    const front = editor.getRange({ line: 0, ch: 0 }, { line: 60, ch: 0 }).slice(0, 5000);
    if (/^\s*(--|#|\/\*)/.test(front)) window.htmx.ajax("POST", form.dataset.check, { source: document.body, target: "#hint-check", values: { text: front } });
    else document.getElementById("hint-check").replaceChildren();
    sessionStorage.setItem(DRAFT, JSON.stringify([editor.getValue(), schema.value]));
  };
  editor.on("change", () => {
    clearTimeout(timer);
    timer = setTimeout(check, 500);
  });
  const [draft, drafted] = JSON.parse(sessionStorage.getItem(DRAFT) || "[]");
  if (!editor.getValue() && draft) write(draft, drafted);
  else if (editor.getValue()) check();
})();
