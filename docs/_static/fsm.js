/* What scrolls by itself can be reached, and scrolled, by the keys. */
addEventListener("DOMContentLoaded", () => {
  for (const each of document.querySelectorAll("article pre, .table-wrapper")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  }
});
