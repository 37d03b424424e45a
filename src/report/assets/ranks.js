// The table of ranks sorts by a click on its heads. The page is complete without.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const value = (row, place) => Number(row.cells[place].dataset.value);
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") !== "descending";
      const rows = Array.from(table.tBodies[0].rows);
      rows.sort((a, b) => (falls ? value(b, place) - value(a, place) : value(a, place) - value(b, place)));
      table.tBodies[0].append(...rows);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    });
  });
}
