"use strict";
(() => {
  const svg = document.getElementById("chains");
  const told = document.getElementById("told");
  if (!svg || !told) return;
  const parts = [...svg.querySelectorAll("[data-chains]")];
  const nodes = [...svg.querySelectorAll(".node")];
  const hint = told.textContent;
  const frame = svg.parentElement;
  const seed = svg.querySelector(".seed");
  if (seed && frame.scrollHeight > frame.clientHeight) {
    const middle = seed.getBoundingClientRect().top - frame.getBoundingClientRect().top;
    frame.scrollTop = middle - frame.clientHeight / 3;
  }
  let held = null;

  const numbers = (part) => part.dataset.chains.split(" ");

  function show(node) {
    const of = new Set(numbers(node));
    for (const part of parts) part.classList.toggle("on", numbers(part).some((number) => of.has(number)));
    svg.classList.add("lit");
    told.textContent = node.dataset.name;
  }

  function clear() {
    if (held) return show(held);
    svg.classList.remove("lit");
    told.textContent = hint;
  }

  function hold(node) {
    if (held) held.classList.remove("held");
    held = held === node ? null : node;
    if (held) held.classList.add("held");
    clear();
  }

  for (const node of nodes) {
    node.addEventListener("mouseenter", () => show(node));
    node.addEventListener("mouseleave", clear);
    node.addEventListener("focus", () => show(node));
    node.addEventListener("blur", clear);
    node.addEventListener("click", (event) => { event.stopPropagation(); hold(node); });
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); hold(node); }
      if (event.key === "Escape" && held) hold(held);
    });
  }
  svg.addEventListener("click", () => { if (held) hold(held); });
})();
