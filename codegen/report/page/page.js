"use strict";
(() => {
  const form = document.getElementById("filters");
  const rows = [...document.getElementById("rows").rows];
  const shown = document.getElementById("shown");
  const keys = ["state", "phase", "crate", "kind"];
  const texts = rows.map((row) => row.textContent.toLowerCase());

  function filter() {
    const wanted = new FormData(form);
    const text = wanted.get("text").trim().toLowerCase();
    let count = 0;
    rows.forEach((row, index) => {
      const match = keys.every((key) => !wanted.get(key) || row.dataset[key] === wanted.get(key));
      row.hidden = !(match && texts[index].includes(text));
      count += row.hidden ? 0 : 1;
    });
    shown.value = `${count} of ${rows.length}`;
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter();

  const details = [...document.querySelectorAll("details")];
  const setAll = (open) => details.forEach((each) => { if (each.classList.contains("file")) each.open = open; });
  document.getElementById("open-all")?.addEventListener("click", () => setAll(true));
  document.getElementById("close-all")?.addEventListener("click", () => setAll(false));

  function reveal() {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();

  let before = [];
  addEventListener("beforeprint", () => {
    before = details.map((each) => each.open);
    details.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => details.forEach((each, index) => { each.open = before[index] ?? each.open; }));
})();
