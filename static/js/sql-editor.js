// The SQL editor: CodeMirror over the textarea, running what is selected or stands at the cursor, the place of an error.
(function () {
  const form = document.querySelector("[data-sql-editor]");
  if (!form || !window.CodeMirror) return;
  const area = form.querySelector("textarea");
  const schema = form.elements.schema;
  const names = window.gantrySqlNames;
  const leaving = { Tab: false, "Shift-Tab": false };
  let marks = [];

  // A list that came by itself takes Enter only from who has walked into it: otherwise Enter is a new line.
  let walked = false;
  function complete(cm, asked = true) {
    walked = asked;
    cm.showHint({ hint: names.hints, completeSingle: false, asked, schema: () => schema.value });
  }
  function beforeKey(cm, event) {
    if (["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(event.key)) walked = true;
    if (event.key === "Enter" && cm.state.completionActive && (!walked || event.ctrlKey || event.metaKey)) cm.closeHint();
    if (!["Escape", "Tab", "Shift"].includes(event.key)) cm.removeKeyMap(leaving);
  }
  const editor = CodeMirror.fromTextArea(area, {
    mode: "text/x-sparksql", lineNumbers: true, matchBrackets: true, autoCloseBrackets: true, indentUnit: 2,
    lineWrapping: true, viewportMargin: 60, placeholder: area.placeholder || "select carrier, count(*) from flights group by carrier",
    screenReaderLabel: window.gantryText("Statement. Escape, then Tab, leaves the editor."), maxHighlightLength: 5000,
    extraKeys: {
      "Ctrl-Enter": run, "Cmd-Enter": run, "Ctrl-Space": (cm) => complete(cm), "Ctrl-/": "toggleComment", "Cmd-/": "toggleComment",
      Tab: (cm) => (cm.somethingSelected() ? cm.indentSelection("add") : cm.execCommand("insertSoftTab")),
      "Shift-Tab": (cm) => cm.indentSelection("subtract"),
      Esc: (cm) => cm.addKeyMap(leaving),
    },
  });
  names.load(form.dataset.names);

  function run() {
    form.requestSubmit(form.querySelector("[data-sql-submit]"));
  }

  // Where statements end: a semicolon that is neither in a text nor in a comment.
  function statements() {
    const found = [];
    let from = { line: 0, ch: 0 };
    editor.eachLine((handle) => {
      const line = editor.getLineNumber(handle);
      if (!handle.text.includes(";")) return;
      for (const token of editor.getLineTokens(line)) {
        if (!token.string.includes(";") || /comment|string/.test(token.type || "")) continue;
        found.push([from, { line, ch: token.end }]);
        from = { line, ch: token.end };
      }
    });
    found.push([from, { line: editor.lastLine(), ch: editor.getLine(editor.lastLine()).length }]);
    return found.filter(([a, b]) => editor.getRange(a, b).replace(/[\s;]/g, ""));
  }

  function chosen() {
    if (editor.somethingSelected()) return [editor.getSelection(), editor.getCursor("from")];
    const all = statements();
    if (all.length < 2) return [editor.getValue(), { line: 0, ch: 0 }];
    const cursor = editor.getCursor();
    const [from, to] = all.find(([, end]) => CodeMirror.cmpPos(cursor, end) <= 0) || all[all.length - 1];
    const text = editor.getRange(from, to);
    const blank = text.match(/^\s*/)[0].length;
    return [text.slice(blank), editor.posFromIndex(editor.indexFromPos(from) + blank)];
  }

  function unmark() {
    for (const mark of marks) mark.clear();
    marks = [];
  }

  // The place counts from the beginning of what was run, which need not be the beginning of the text.
  function placed(button) {
    const pane = button.closest("[data-sql-run-pane]");
    const line = Number(button.dataset.line) - 1;
    const ch = Number(button.dataset.column) - 1 + (line === 0 ? Number(pane?.dataset.column || 0) : 0);
    return { line: line + Number(pane?.dataset.line || 0), ch };
  }

  function mark(...buttons) {
    unmark();
    for (const from of buttons.map(placed)) {
      if (from.line > editor.lastLine()) continue;
      const word = editor.getTokenAt({ line: from.line, ch: from.ch + 1 });
      const end = Math.max(word.end, from.ch + 1);
      marks.push(editor.markText(from, { line: from.line, ch: end }, { className: "sql-error-mark", clearOnEnter: false }));
    }
  }

  editor.on("blur", () => editor.removeKeyMap(leaving));
  editor.on("keydown", beforeKey);
  editor.on("cursorActivity", () => {
    const { line, ch } = editor.getCursor();
    const selected = editor.getSelection().length;
    form.querySelector("[data-sql-cursor]").textContent = `Line ${line + 1}, column ${ch + 1}${selected ? ` · ${selected} selected` : ""}`;
  });

  editor.on("inputRead", (cm, change) => {
    if (!cm.state.completionActive && /^[\w.`]$/.test(change.text[0])) complete(cm, false);
  });
  for (const element of form.querySelectorAll("[data-sql-scripted]")) element.hidden = false;
  window.gantrySql = { editor, form, schema, chosen, mark, placed, names };
})();
