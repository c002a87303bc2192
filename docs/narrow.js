// Prepares code and tables for the screens of phones; the rules are in book.css.
(() => {
    // Code that fits a line, or a column of a table, does not break after its hyphens.
    for (const code of document.querySelectorAll("main :not(pre) > code")) {
        code.classList.toggle("short", code.textContent.length <= (code.closest("table") ? 18 : 30));
    }
    for (const table of document.querySelectorAll("main table")) {
        const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
        const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.children]);
        const lengths = rows.map((cells) => cells.map((cell) => cell.textContent.length));
        const first = Math.max(...lengths.map((row) => row[0]));
        const others = lengths.flatMap((row) => row.slice(1));
        const mean = others.reduce((sum, length) => sum + length, 0) / others.length;
        if (mean >= 21.5 && (names.length > 2 || first >= 40)) {
            // Rows of sentences are lists of named cells, which keep their roles in a table.
            table.classList.add("stacked");
            table.setAttribute("role", "table");
            table.querySelectorAll("thead, tbody").forEach((group) => group.setAttribute("role", "rowgroup"));
            table.querySelectorAll("tr").forEach((row) => row.setAttribute("role", "row"));
            table.querySelectorAll("th").forEach((cell) => cell.setAttribute("role", "columnheader"));
            for (const cells of rows) {
                cells.forEach((cell, column) => {
                    cell.setAttribute("role", column === 0 ? "rowheader" : "cell");
                    if (column > 0 && names.length > 2) cell.dataset.name = names[column];
                });
            }
        } else if (first <= 20) {
            // The first column of a table of numbers stays in view.
            table.classList.add("keyed");
        }
    }
})();
