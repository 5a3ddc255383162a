// Sortable tables and the filters of the prediction browser. The page is complete without it.
"use strict";

const number = (text) => {
  const found = /^[+−-]?[\d,]*\.?\d+/.exec(text.trim());
  return found ? Number(found[0].replace("−", "-").replaceAll(",", "")) : null;
};

const valueOf = (row, at) => {
  const cell = row.cells[at];
  return cell ? (cell.dataset.v ?? cell.textContent).trim() : "";
};

const compare = (a, b) => {
  const [x, y] = [number(a), number(b)];
  return x !== null && y !== null ? x - y : a.localeCompare(b, "en", { numeric: true });
};

// What is unknown stays below in both directions.
const isUnknown = (text) => text === "" || text === "–";

function sortBy(table, heads, head) {
  const body = table.tBodies[0];
  const before = head.getAttribute("aria-sort");
  const turn = head.classList.contains("n") ? ["descending", "ascending"] : ["ascending", "descending"];
  const order = before === "none" ? turn[0] : before === turn[0] ? turn[1] : "none";
  for (const other of heads) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", order);
  table.classList.toggle("sorted", order !== "none");
  const rows = table.originalRows;
  if (order === "none") {
    body.append(...rows);
    return;
  }
  const sign = order === "ascending" ? 1 : -1;
  const keyed = rows.map((row) => [valueOf(row, head.cellIndex), row]);
  keyed.sort(([a], [b]) => isUnknown(a) - isUnknown(b) || (isUnknown(a) ? 0 : sign * compare(a, b)));
  body.append(...keyed.map(([, row]) => row));
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells].filter((head) => !head.classList.contains("nosort"));
  if (table.tBodies[0].rows.length < 2) return;
  table.originalRows = [...table.tBodies[0].rows];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sortBy(table, heads, head));
  }
}

// A figure carries what it shows in data attributes, a table row in its cells.
function factsOf(item, keys) {
  if (item.tagName !== "TR") return item.dataset;
  return Object.fromEntries(keys.map((key, at) => [key, valueOf(item, at)]));
}

function fits(facts, wanted) {
  const dice = Number(facts.dice);
  if (dice < wanted.low || dice > wanted.high) return false;
  return Object.entries(wanted.exact).every(([key, value]) => {
    if (value === "") return true;
    const regions = facts.position.split("; ");
    return key === "position" ? regions.includes(value) : facts[key] === value;
  });
}

function makeBrowser(browser) {
  const form = browser.querySelector("form");
  const keys = [...browser.querySelectorAll("table.predictions thead th")].map((th) => th.dataset.key);
  const rows = [...browser.querySelectorAll("table.predictions tbody tr")];
  const figures = [...browser.querySelectorAll(".gallery figure")];
  const items = [...figures, ...rows].map((item) => [item, factsOf(item, keys)]);
  const apply = () => {
    const exact = {};
    for (const select of form.querySelectorAll("select")) exact[select.name] = select.value;
    const bound = (name, otherwise) => (form.elements[name].value === "" ? otherwise : form.elements[name].valueAsNumber);
    const wanted = { exact, low: bound("low", 0), high: bound("high", 100) };
    for (const [item, facts] of items) item.hidden = !fits(facts, wanted);
    const shown = (all) => all.filter((item) => !item.hidden).length;
    const pictures = figures.length ? `${shown(figures)} of ${figures.length} pictures, ` : "";
    form.querySelector("output").textContent = `${pictures}${shown(rows)} of ${rows.length} listed predictions`;
  };
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    target.scrollIntoView();
  }
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll(".browser").forEach(makeBrowser);
addEventListener("hashchange", openTarget);
openTarget();
