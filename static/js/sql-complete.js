// Completion of the SQL editor: schemas, tables, columns, functions, keywords, and the options of the hint.
(function () {
  const PLAIN = /^[A-Za-z_]\w*$/;
  const PATH = /((?:(?:`[^`]*`|[\w$]+)\s*\.\s*)*)(`[^`]*|[\w$%-]*)$/;
  const SOURCE = /\b(?:from|join|into|table|describe)\s+((?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))?)(?:\s+(?:as\s+)?([A-Za-z_]\w*))?/gi;
  const VALUES = { run_async: ["true", "false"], "mq-notify-by": ["ons", "mns"] };
  const MOST = 60;
  let known = null;
  const asked = new Map();

  const quoted = (name) => (PLAIN.test(name) ? name : `\`${name.replace(/`/g, "``")}\``);
  const bare = (name) => (name.startsWith("`") ? name.slice(1, -1).replace(/``/g, "`") : name);
  const parts = (path) => (path.match(/`[^`]+`|[\w$]+/g) || []).map(bare);

  // Answers of the server, asked once each; an outage only means that nothing is offered.
  function ask(url) {
    if (!asked.has(url)) {
      const answer = fetch(url, { headers: { Accept: "application/json" } }).then((r) => (r.ok ? r.json() : {}));
      asked.set(url, answer.catch(() => ({})));
    }
    return asked.get(url);
  }

  async function load(url) {
    known = { schemas: {}, searched: [], refused: [], options: [], texts: [], ...(await ask(url)), url };
    for (const list of ["texts", "words"]) known[list] = known[list]?.map(([text, kind]) => ({ text, kind }));
    if (known.words) return;
    const words = CodeMirror.resolveMode("text/x-sparksql");
    const refused = new Set(known.refused);
    const functions = Object.keys(words.builtin || {}).filter((name) => !refused.has(name) && name.length > 1);
    known.words = [
      ...functions.map((text) => ({ text, kind: "function" })),
      ...Object.keys(words.keywords || {}).map((text) => ({ text, kind: "keyword" })),
    ];
  }

  async function columns(schema, table) {
    const own = known.schemas[schema];
    if (own) return Object.entries(own).find(([name]) => name.toLowerCase() === table.toLowerCase())?.[1] || [];
    if (!known.searched.includes(schema)) return [];
    const query = new URLSearchParams({ schema, table });
    return (await ask(`${known.url}?${query}`)).columns || [];
  }

  async function tables(schema, prefix) {
    if (known.schemas[schema]) return Object.keys(known.schemas[schema]);
    if (!known.searched.includes(schema)) return [];
    return (await ask(`${known.url}?${new URLSearchParams({ schema, q: prefix })}`)).tables || [];
  }

  // The tables that the statement names: [alias or name, schema, table].
  function sources(text, schema) {
    return [...text.matchAll(SOURCE)].slice(0, 20).map(([, path, alias]) => {
      const names = parts(path);
      const table = names[names.length - 1];
      return [alias || table, names.length > 1 ? names[0] : schema, table];
    });
  }

  const asColumns = (rows) => rows.map(([text, type]) => ({ text, type, kind: "column" }));
  const asTables = (names) => names.map((text) => ({ text, kind: "table" }));

  async function qualified(path, prefix, used) {
    if (path.length > 1) return asColumns(await columns(path[0], path[1]));
    const source = used.find(([name, , table]) => [name, table].some((n) => n.toLowerCase() === path[0].toLowerCase()));
    const found = asTables(await tables(path[0], prefix));
    return source ? [...asColumns(await columns(source[1], source[2])), ...found] : found;
  }

  async function unqualified(prefix, schema, used) {
    // Before FROM is written, the columns of the whole schema are what can be meant.
    const own = Object.keys(known.schemas[schema] || {}).map((table) => ["", schema, table]);
    const lists = await Promise.all((used.length ? used : own).map(([, from, table]) => columns(from, table)));
    const names = [...Object.keys(known.schemas), ...known.searched].filter(Boolean).map((text) => ({ text, kind: "schema" }));
    return [...asColumns(lists.flat()), ...asTables(await tables(schema, prefix)), ...names, ...known.words];
  }

  function inHint(line) {
    const value = line.match(/([\w-]+)\s*=\s*([\w.:/-]*)$/);
    if (value) return { prefix: value[2], found: (VALUES[value[1]] || []).map((text) => ({ text, kind: "value" })) };
    const prefix = line.match(/[\w-]*$/)[0];
    return { prefix, found: known.options.map((text) => ({ text, insert: `${text}=`, kind: "hint" })) };
  }

  // What begins with the prefix stands before what has it inside; each name once.
  function fitting(found, prefix) {
    const wanted = prefix.toLowerCase();
    const seen = new Set();
    const ranked = [[], []];
    for (const entry of found) {
      const at = entry.text.toLowerCase().indexOf(wanted);
      const id = `${entry.text} ${entry.kind}`;
      if (at < 0 || seen.has(id) || (at > 0 && wanted.length < 2)) continue;
      seen.add(id);
      ranked[at === 0 ? 0 : 1].push(entry);
    }
    return ranked.flat().slice(0, MOST);
  }

  function shown(entry) {
    const name = ["column", "table", "schema"].includes(entry.kind) ? quoted(entry.text) : entry.text;
    return {
      text: entry.insert || name,
      className: `sql-completion sql-completion-${entry.kind}`,
      render: (element) => {
        const side = document.createElement("small");
        side.textContent = entry.type || entry.kind;
        element.append(document.createTextNode(entry.text), side);
      },
    };
  }

  async function hints(editor, options) {
    if (!known) return null;
    const cursor = editor.getCursor();
    const line = editor.getLine(cursor.line).slice(0, cursor.ch);
    const before = editor.getRange({ line: Math.max(cursor.line - 20, 0), ch: 0 }, cursor);
    const opened = before.lastIndexOf("/*");
    const type = editor.getTokenTypeAt(cursor) || "";
    if (opened >= 0 && before.indexOf("*/", opened) < 0) {
      if (!/^\/\*\s*\+/.test(before.slice(opened))) return null;
      const { prefix, found } = inHint(line);
      return answer(cursor, prefix.length, fitting(found, prefix));
    }
    const open = type.includes("string") && known.texts.length ? line.match(/'([^']*)$/) : null;
    if (open) return answer(cursor, open[1].length, fitting(known.texts, open[1]));
    if (type.includes("comment") || (type.includes("string") && !line.includes("`"))) return null;
    const [, path, typed] = line.match(PATH);
    const prefix = typed.replace(/^`/, "");
    if (!options.asked && !path && !prefix) return null;
    const used = sources(editor.getValue(), options.schema());
    const found = path ? await qualified(parts(path), prefix, used) : await unqualified(prefix, options.schema(), used);
    return answer(cursor, typed.length, fitting(found, prefix));
  }

  // Tables that the text itself defines: they stand in the schema without a name.
  function define(found) {
    if (known) known.schemas[""] = found;
  }

  const answer = (cursor, length, found) => ({
    list: found.map(shown),
    from: CodeMirror.Pos(cursor.line, cursor.ch - length),
    to: cursor,
  });

  window.gantrySqlNames = { load, hints, quoted, define };
})();
