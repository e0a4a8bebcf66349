// Search and filters, the choice of a kernel, copying. Without this script every page can be read whole.
"use strict";

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// -- search: filters what stands on the page, so that it works from a file ---------------

function score(entry, words, chosen) {
  const text = entry.dataset.search;
  if (!words.every((word) => text.includes(word))) return -1;
  if (!chosen.every((each) => entry.dataset[each.name].split(" ").includes(each.value))) return -1;
  const name = entry.dataset.name.toLowerCase();
  const begins = words.some((word) => name.startsWith(word));
  return words.includes(name) * 4 + begins * 2 + words.some((word) => name.includes(word));
}

function filter(section, words, chosen) {
  const entries = all("[data-search]", section);
  const scored = entries.map((entry) => [entry, score(entry, words, chosen)]);
  if (words.length) scored.sort((one, other) => other[1] - one[1] || one[0].place - other[0].place);
  else scored.sort((one, other) => one[0].place - other[0].place);
  let shown = 0;
  for (const [entry, points] of scored) {
    entry.hidden = points < 0;
    shown += points >= 0;
    entry.parentNode.append(entry);
  }
  const narrowed = words.length + chosen.length > 0;
  section.hidden = narrowed && shown === 0;
  section.querySelector(".count").textContent = narrowed ? `${shown} of ${entries.length}` : entries.length;
  return { shown, best: scored[0] ?? [null, -1] };
}

function search(box, sections) {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = all(".filters select").filter((each) => each.value);
  const narrowed = words.length + chosen.length > 0;
  document.body.classList.toggle("searching", narrowed);
  const found = sections.map((section) => filter(section, words, chosen));
  const [plugins, ops] = found.map((each) => each.shown);
  const hits = document.querySelector(".hits");
  hits.hidden = !narrowed;
  hits.textContent = `${plugins} ${plugins === 1 ? "plugin" : "plugins"}, ${ops} ${ops === 1 ? "op" : "ops"}`;
  document.querySelector(".nothing").hidden = !narrowed || plugins + ops > 0;
  return found.map((each) => each.best).reduce((one, other) => (other[1] > one[1] ? other : one));
}

function remember(box) {
  if (location.protocol === "file:") return; // a file's address may not be changed
  const query = new URLSearchParams(box.value.trim() ? { q: box.value.trim() } : {});
  for (const each of all(".filters select")) if (each.value) query.set(each.name, each.selectedOptions[0].text);
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
}

function startSearch() {
  const box = document.querySelector("#query");
  if (!box) return;
  const sections = [document.querySelector("#plugins"), document.querySelector("#ops")];
  for (const section of sections) all("[data-search]", section).forEach((entry, place) => { entry.place = place; });
  document.querySelector(".search").hidden = false;
  box.addEventListener("input", () => { search(box, sections); remember(box); });
  box.addEventListener("keydown", (event) => {
    const [best, points] = search(box, sections);
    if (event.key === "Enter" && box.value.trim() && points >= 0) location.href = best.querySelector("a").href;
    if (event.key === "Escape") { box.value = ""; search(box, sections); remember(box); }
  });
  const asked = new URLSearchParams(location.search);
  for (const select of all(".filters select")) {
    const wanted = [...select.options].find((option) => option.text === asked.get(select.name));
    if (wanted) select.value = wanted.value;
    select.addEventListener("change", () => { search(box, sections); remember(box); });
  }
  all(".filters").forEach((group) => { group.hidden = false; });
  box.value = asked.get("q") ?? "";
  if (asked.size) search(box, sections);
}

function slash(event) {
  const box = document.querySelector("#query");
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (box) box.focus();
  else location.href = document.querySelector(".mark").href;
}

// -- kernels: one at a time, chosen by direction, device and dtype -----------------------

function startKernels() {
  const box = document.querySelector(".kernels");
  if (!box) return;
  const kernels = all(".kernel", box);
  const choose = () => {
    const chosen = Object.fromEntries(all("input:checked", box).map((input) => [input.name, input.value]));
    let found = false;
    for (const kernel of kernels) {
      const fits = Object.entries(chosen).every(([name, value]) => kernel.dataset[name].split(" ").includes(value));
      kernel.hidden = !fits;
      kernel.open = fits;
      found ||= fits;
    }
    box.querySelector(".missing").hidden = found;
  };
  for (const kernel of kernels) kernel.classList.add("chosen");
  for (const input of all("input", box)) input.addEventListener("change", choose);
  box.querySelector(".choices").hidden = false;
  choose();
}

// -- copying; the address of this site is known only here --------------------------------

function startCopying() {
  const index = new URL("simple/", document.querySelector(".mark").href).href;
  for (const code of all(".command code")) code.textContent = code.textContent.replace("<this site>/simple/", index);
  if (!navigator.clipboard) return;
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentNode.querySelector("code").textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

startSearch();
startKernels();
startCopying();
document.addEventListener("keydown", slash);
