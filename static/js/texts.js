// What scripts say, in the language of the page: base.html gives the texts where it is not English.
window.gantryText = (function () {
  const texts = JSON.parse(document.getElementById("script-texts")?.textContent ?? "{}");
  return (text, values = {}) =>
    (texts[text] ?? text).replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? values[name] : whole));
})();
