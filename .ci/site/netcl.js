// What the theme leaves out for readers without a mouse: names of landmarks, and boxes that scroll by keys.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  document.querySelectorAll("nav.md-nav").forEach((nav, i) => {
    nav.removeAttribute("aria-labelledby");
    nav.setAttribute("aria-label", `Pages ${i + 1}`);
  });
  document.querySelectorAll(".md-typeset th:empty").forEach((head) => head.replaceWith(document.createElement("td")));
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
});
