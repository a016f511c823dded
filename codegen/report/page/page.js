"use strict";
(() => {
  const form = document.getElementById("filters");
  const body = document.getElementById("rows");
  const rows = [...body.rows];
  const heads = [...document.querySelectorAll("[data-sort]")];
  const shown = document.getElementById("shown");
  const fields = ["text", "state", "phase", "crate", "kind", "sort"];
  const keys = ["state", "phase", "crate", "kind"];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const order = new Intl.Collator("en", { numeric: true });
  let down = false;

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

  function sort() {
    const by = form.elements.sort.value;
    const text = (row) => row.cells[by].textContent.trim();
    const sorted = by === "" ? rows : [...rows].sort((one, two) => (down ? -1 : 1) * order.compare(text(one), text(two)));
    body.append(...sorted);
    heads.forEach((head) => {
      const chosen = head.dataset.sort === by;
      head.parentElement.setAttribute("aria-sort", chosen ? (down ? "descending" : "ascending") : "none");
    });
  }

  // What is chosen stands in the address, after #sites?, so that it can be sent to somebody.
  function remember() {
    const chosen = new URLSearchParams(fields.map((name) => [name, form.elements[name].value]).filter(([, value]) => value));
    if (down) chosen.set("down", "1");
    history.replaceState(null, "", String(chosen) ? `#sites?${chosen}` : "#sites");
  }

  function recall() {
    const [place, chosen] = location.hash.split("?");
    if (place !== "#sites" || chosen === undefined) return;
    const given = new URLSearchParams(chosen);
    fields.forEach((name) => { form.elements[name].value = given.get(name) ?? ""; });
    down = given.has("down");
    filter();
    sort();
    document.getElementById("sites").scrollIntoView();
  }

  form.addEventListener("input", (event) => {
    if (event.target.name === "sort") { down = false; sort(); }
    filter();
    remember();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { down = false; filter(); sort(); remember(); }));
  heads.forEach((head) => head.addEventListener("click", () => {
    down = form.elements.sort.value === head.dataset.sort && !down;
    form.elements.sort.value = head.dataset.sort;
    sort();
    remember();
  }));
  filter();

  const details = [...document.querySelectorAll("details")];
  const files = details.filter((each) => each.classList.contains("file"));
  const setAll = (open) => files.forEach((each) => { each.open = open; });
  document.getElementById("open-all")?.addEventListener("click", () => setAll(true));
  document.getElementById("close-all")?.addEventListener("click", () => setAll(false));

  // Side by side: what was removed on the left, what came for it on the right. Made of a file when it is first shown so.
  const layout = document.getElementById("layout");

  function halves(table) {
    const made = document.createElement("table");
    made.className = "hunk split";
    made.append(table.tHead.cloneNode(true));
    made.tHead.rows[0].cells[0].colSpan = 4;
    const to = made.createTBody();
    const side = (line, row) => {
      for (const cell of row ? [row.cells[0], row.cells[2]] : [null, null]) {
        const copy = cell ? cell.cloneNode(true) : document.createElement("td");
        if (row && row.className) copy.className = row.className;
        line.append(copy);
      }
    };
    let left = [], right = [];
    const flush = () => {
      for (let at = 0; at < Math.max(left.length, right.length); at++) {
        const line = to.insertRow();
        side(line, left[at]);
        side(line, right[at]);
      }
      left = [];
      right = [];
    };
    for (const row of table.tBodies[0].rows) {
      if (row.className === "del") {
        if (right.length) flush();
        left.push(row);
      } else if (row.className === "add") {
        right.push(row);
      } else {
        flush();
        const line = to.insertRow();
        side(line, row);
        side(line, row);
      }
    }
    flush();
    return made;
  }

  function divide(file) {
    if (layout?.value !== "split" || !file.open || file.dataset.divided) return;
    file.dataset.divided = "yes";
    for (const table of file.querySelectorAll(".hunk")) {
      if (!table.querySelector("tr.del")) continue; // nothing stands on the left
      table.after(halves(table));
      table.classList.add("halved");
    }
  }

  layout?.addEventListener("change", () => {
    document.body.classList.toggle("sides", layout.value === "split");
    files.forEach(divide);
  });
  files.forEach((file) => file.addEventListener("toggle", () => divide(file)));

  // What was reviewed is kept in this browser, by the text of each diff: a file that changes has to be looked at again.
  const marks = [...document.querySelectorAll("[data-review]")];
  const reviewed = document.getElementById("reviewed");
  const kept = (() => { try { return localStorage; } catch { return null; } })();
  const name = (mark) => `candle-rocm ${mark.dataset.review}`;

  function count() {
    if (reviewed) reviewed.value = `${marks.filter((mark) => mark.checked).length} of ${marks.length} files reviewed`;
  }

  marks.forEach((mark) => {
    mark.checked = kept?.getItem(name(mark)) === "reviewed";
    mark.addEventListener("change", () => {
      try { mark.checked ? kept?.setItem(name(mark), "reviewed") : kept?.removeItem(name(mark)); } catch { /* no room */ }
      count();
    });
  });
  count();

  let at = -1;

  function go(step) {
    at = Math.min(Math.max(at + step, 0), files.length - 1);
    const file = files[at];
    file.parentElement.scrollIntoView();
    file.querySelector("summary").focus();
  }

  addEventListener("focusin", (event) => {
    const file = event.target.closest?.(".box")?.querySelector(".file");
    if (file) at = files.indexOf(file);
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox") return;
    const does = {
      "/": () => form.elements.text.focus(),
      j: () => go(1),
      k: () => go(-1),
      o: () => { if (at >= 0) files[at].open = !files[at].open; },
      x: () => { if (at >= 0) marks[at].click(); },
    }[event.key];
    if (does) {
      event.preventDefault();
      does();
    }
  });

  function reveal() {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (target instanceof HTMLDetailsElement) target.open = true;
    if (target?.hidden) target.hidden = false;
    recall();
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
