// Runs before the first paint: light, dark, or as the system says.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const choice = () => localStorage.getItem("gantry-theme") || "auto";
  const apply = () => {
    const theme = choice() === "auto" ? (dark.matches ? "dark" : "light") : choice();
    document.documentElement.setAttribute("data-bs-theme", theme);
    document.documentElement.setAttribute("data-theme-choice", choice());
    document.dispatchEvent(new CustomEvent("gantry:theme"));
  };
  window.gantryTheme = (name) => { localStorage.setItem("gantry-theme", name); apply(); };
  dark.addEventListener("change", apply);
  apply();
})();
