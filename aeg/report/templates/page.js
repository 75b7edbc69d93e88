"use strict";
// A click on a column's head sorts by it; again, the other way round. Numbers sort from the largest.
function value(row, at) {
  const cell = row.cells[at];
  return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
}
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? 1 : -1; // no number comes last
  return a.localeCompare(b, "en", { numeric: true });
}
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("thead tr:last-child th")];
  if (table.tBodies[0].rows.length < 2) continue;
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numbers = [...table.tBodies[0].rows].some((row) => "sort" in row.cells[at].dataset);
      const now = head.getAttribute("aria-sort");
      const down = now ? now === "ascending" : numbers;
      const sign = down ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => sign * compare(value(a, at), value(b, at)));
      table.tBodies[0].append(...rows);
    });
  });
}
// The contents start closed on a narrow window; everything is open on paper.
const contents = document.querySelector("details.contents");
if (window.matchMedia("(max-width: 1499px)").matches) contents.removeAttribute("open");
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((one) => one.setAttribute("open", ""));
});
window.addEventListener("afterprint", () => closed.forEach((one) => one.removeAttribute("open")));
