//! The page `docs/tables.md`: every table and column, from the schemas.
//!
//! Owns the list of all tables, the words around it and the example queries, which a test runs as they stand.

use super::hashes::HASH_RULE;
use super::{ColumnSchema, TABLES_SCHEMA, TableSchema, schemas};

/// Every table, in the order in which they are documented and written.
pub const TABLES: [&TableSchema; 16] = [
    &schemas::TRACE,
    &schemas::ALLOCATIONS,
    &schemas::STACKS,
    &schemas::LINES,
    &schemas::STEPS,
    &schemas::STEP_LINES,
    &schemas::CATEGORIES,
    &schemas::MODULES,
    &schemas::USAGE,
    &schemas::SEGMENTS,
    &schemas::FRAGMENTATION,
    &schemas::PINS,
    &schemas::POOLS,
    &schemas::OOMS,
    &schemas::FINDINGS,
    &schemas::WARNINGS,
];

const HEAD: &str = "\
`memlab export TRACE -o tables` writes the tables behind a report, one file per table and device: `lines.parquet` for
device 0, `lines.1.parquet` for device 1; `--format csv` writes CSV, `--table NAME` only that table. Figures are those
of the report, to the byte. The same file gives the same bytes.
";

/// Title and query.
const QUERIES: [(&str, &str); 3] = [
    (
        "Who holds the peak, by line and by what it is for",
        "SELECT file, line, function, category, count(*) AS blocks, sum(block_bytes) AS bytes
FROM 'tables/allocations.parquet'
WHERE live_at_peak
GROUP BY ALL
ORDER BY bytes DESC, file, line, function, category
LIMIT 10;",
    ),
    (
        "The whole stack behind the largest block of the peak",
        "SELECT depth, file, line, function, owner
FROM 'tables/stacks.parquet'
WHERE stack = (
    SELECT stack FROM 'tables/allocations.parquet'
    WHERE live_at_peak AND stack IS NOT NULL
    ORDER BY block_bytes DESC, id
    LIMIT 1
)
ORDER BY depth;",
    ),
    (
        "Which lines keep more from step to step",
        "SELECT file, line, function, sum(growth_bytes) AS grown_bytes, count(*) FILTER (WHERE growth_bytes > 0) AS steps
FROM 'tables/step_lines.parquet'
WHERE step > 0
GROUP BY ALL
HAVING grown_bytes > 0
ORDER BY grown_bytes DESC, file, line, function;",
    ),
];

const CONVENTIONS: [&str; 8] = [
    "Every table begins with `device`, so the files of several devices can be read together: \
     `FROM 'tables/lines*.parquet'`. Devices are never added up.",
    "Sizes are exact bytes. Events are numbered from 0 on each device. Times are Unix microseconds.",
    "A null (an empty cell in CSV) says that something is not known or does not apply; the column's meaning says \
     which. Nothing is guessed into a cell.",
    "Allocated bytes are those of blocks, `block_bytes`, as in `torch.cuda.memory_allocated()`; `requested_bytes` is \
     what the program asked for.",
    "`stack` is a number within one file; rows of several files or ranks are joined by `stack_hash`. {HASH}.",
    "Texts are what the file says, untouched: control characters, quotes and line breaks included. In CSV they are \
     quoted where they must be (RFC 4180, with line feeds). A text that begins with `=`, `+`, `-` or `@` is not \
     defused, since that would change it: have spreadsheets import such columns as text.",
    "An empty text and a null are told apart in Parquet; in CSV an empty text is `\"\"` and a null is nothing.",
    "u32, u64, i64, f64, bool and text are UINTEGER, UBIGINT, BIGINT, DOUBLE, BOOLEAN and VARCHAR in DuckDB. Parquet \
     files state the table and this version in their metadata (`memlab.table`, `memlab.tables_schema`). Read CSV with \
     the types below: addresses and streams may exceed what a reader guesses.",
];

/// The whole page, in Markdown.
#[must_use]
pub fn tables_page() -> String {
    let mut page = format!("# Tables\n\n{HEAD}\n## What holds for all of them\n\n");
    page.push_str(&format!("This is version {TABLES_SCHEMA} of the tables.\n\n"));
    for convention in CONVENTIONS {
        page.push_str(&format!("- {}\n", convention.replace("{HASH}", HASH_RULE)));
    }
    page.push_str("\n## Examples\n\nWith [DuckDB](https://duckdb.org), in the folder that holds `tables`:\n");
    for (title, query) in QUERIES {
        page.push_str(&format!("\n{title}:\n\n```sql\n{query}\n```\n"));
    }
    page.push_str("\n## All tables\n\n");
    for table in TABLES {
        page.push_str(&format!("- [`{0}`](#{0})\n", table.name));
    }
    for table in TABLES {
        page.push_str(&format!("\n## {}\n\n{}.\n\n", table.name, table.meaning));
        page.push_str("| column | type | unit | may be null | meaning |\n| --- | --- | --- | --- | --- |\n");
        table.columns.iter().for_each(|column| page.push_str(&row(column)));
    }
    page
}

fn row(column: &ColumnSchema) -> String {
    let null = if column.nullable { "yes" } else { "" };
    format!(
        "| `{}` | {} | {} | {null} | {} |\n",
        column.name,
        column.kind.name(),
        column.unit,
        column.meaning
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_used_once_and_every_table_says_its_device() {
        let names: BTreeSet<_> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), TABLES.len());
        for table in TABLES {
            let columns: BTreeSet<_> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
            assert_eq!(table.columns[0].name, "device", "{}", table.name);
        }
    }

    #[test]
    fn names_say_their_unit() {
        for column in TABLES.iter().flat_map(|table| table.columns) {
            let is_bytes = column.name.ends_with("bytes");
            assert_eq!(column.unit == "bytes", is_bytes, "{}", column.name);
            assert_eq!(column.unit == "us", column.name.ends_with("_us"), "{}", column.name);
            assert_eq!(column.unit == "event", column.name.ends_with("event"), "{}", column.name);
            assert!(!column.meaning.contains('|'), "{} would break its row", column.name);
        }
    }
}
