// A date that is typed is the one that counts: the choice beside it says so, and another choice empties the dates.
// Both before htmx, which sends the form as it then is.
(function () {
  const isDate = (element) => element?.matches?.('input[type="datetime-local"]');
  document.addEventListener("input", (event) => {
    if (!isDate(event.target) || !event.target.value) return;
    for (const choice of event.target.form?.querySelectorAll("[data-dates]") ?? []) {
      if (choice.type === "radio") choice.checked = choice.value === choice.dataset.dates;
      else choice.value = choice.dataset.dates;
    }
  }, true);
  document.addEventListener("change", (event) => {
    const choice = event.target.closest?.("[data-dates]");
    if (!choice || choice.value === choice.dataset.dates) return;
    for (const element of choice.form.elements) if (isDate(element)) element.value = "";
  }, true);
})();
