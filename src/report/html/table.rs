//! Tables of a page: columns with the keys of the JSON, cells that carry their exact figure.
//!
//! Owns the shape that the page's script takes over to sort, search and copy. Which rows and columns a table
//! has is its caller's.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;

use super::text::{Name, Prose};
use crate::units::{Bytes, Count, SignedBytes, percent};

/// A table with its script's name. What stands in `rest` keeps to the bottom however the table is sorted.
#[derive(Template)]
#[template(path = "table.html", config = "src/report/assets/askama.toml")]
pub(super) struct Table {
    /// What the script knows the table by: `lines`, `steps`, ...
    pub(super) kind: &'static str,
    /// Place of the device in the file's list.
    pub(super) place: usize,
    /// What it shows, for those who do not see it.
    pub(super) caption: &'static str,
    /// The word for what a row is, in the singular.
    pub(super) row_word: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    pub(super) rest: Vec<Row>,
}

impl HtmlSafe for Table {}

/// A column and where its values stand in a row of the JSON.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) kind: &'static str,
    /// What the figure means, under the pointer; empty where the label says it.
    pub(super) hint: &'static str,
    /// The rows come in descending order of this column.
    pub(super) is_sorted: bool,
}

/// A column; `kind` is `words`, `bytes`, `change`, `count`, `event` or `share`.
pub(super) fn column(kind: &'static str, key: &'static str, label: &'static str) -> Column {
    Column { key, label, kind, hint: "", is_sorted: false }
}

impl Column {
    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    fn is_words(&self) -> bool {
        self.kind == "words"
    }
}

/// A row; its first cell is its head.
pub(super) struct Row {
    /// Why a row keeps to the bottom: `more` rows than the page shows, `unknown`, `total`; empty for others.
    pub(super) rest: &'static str,
    pub(super) cells: Vec<Cell>,
}

impl Row {
    pub(super) fn new(cells: Vec<Cell>) -> Self {
        Self { rest: "", cells }
    }

    /// A row that keeps to the bottom: `head`, `figures`, then dashes up to `columns` cells.
    pub(super) fn rest(rest: &'static str, head: &str, figures: Vec<Cell>, columns: usize) -> Self {
        let mut cells = vec![Cell::Words(Prose::new(head))];
        cells.extend(figures);
        cells.resize_with(columns, || Cell::Dash);
        Self { rest, cells }
    }

    /// The row for what is left to the JSON, where `shown` of `all` rows are in the page.
    pub(super) fn left_out(all: usize, shown: usize, columns: usize) -> Vec<Self> {
        let count = all.saturating_sub(shown) as u64;
        let row = || Self::rest("more", &format!("{} more: see report.json", Count(count)), vec![], columns);
        (count > 0).then(row).into_iter().collect()
    }

    fn html(&self) -> String {
        self.cells.iter().enumerate().map(|(index, cell)| cell.html(index == 0)).collect()
    }
}

/// What stands in a cell.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Bytes(u64),
    /// Signed bytes.
    Change(i64),
    Count(u64),
    /// An event's number; `None` is before the first.
    Event(Option<u64>),
    /// `part` of `whole`, with a bar in the colour of a class.
    Share {
        part: u64,
        whole: u64,
        class: String,
    },
    Words(Prose),
    Name(Name),
    /// A name with the swatch of its colour class and whatever finished HTML follows it.
    Swatch {
        name: Name,
        class: String,
        after: String,
    },
    /// Nothing is known, or nothing applies.
    Dash,
}

impl Cell {
    pub(super) fn words(text: &str) -> Self {
        Self::Words(Prose::new(text))
    }

    /// A name; a dash for one that is missing or empty.
    pub(super) fn name(text: Option<&str>) -> Self {
        text.filter(|text| !text.is_empty())
            .map_or_else(|| Self::words("-"), |text| Self::Name(Name::new(text)))
    }

    pub(super) fn maybe_bytes(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Dash, Self::Bytes)
    }

    fn is_words(&self) -> bool {
        matches!(self, Self::Words(_) | Self::Name(_) | Self::Swatch { .. })
    }

    /// The whole cell; the first of a row heads it.
    pub(super) fn html(&self, is_head: bool) -> String {
        let (open, close) = if is_head { ("th scope=\"row\"", "th") } else { ("td", "td") };
        let mut text = format!("<{open}");
        if !self.is_words() {
            text.push_str(" class=\"number\"");
        }
        let written = match self {
            Self::Bytes(bytes) => {
                write!(text, " data-bytes=\"{bytes}\" title=\"{} bytes\">{}", Count(*bytes), Bytes(*bytes))
            }
            Self::Change(bytes) => {
                let sign = if *bytes < 0 { "-" } else { "" };
                let exact = Count(bytes.unsigned_abs());
                write!(text, " data-bytes=\"{bytes}\" title=\"{sign}{exact} bytes\">{}", SignedBytes(*bytes))
            }
            Self::Count(count) => write!(text, " data-count=\"{count}\">{}", Count(*count)),
            Self::Event(Some(event)) => write!(text, " data-count=\"{event}\">{}", Count(*event)),
            Self::Event(None) => write!(text, " data-count=\"-1\">before the first"),
            Self::Share { part, whole, class } => {
                write!(text, " data-part=\"{part}\">{}{}", percent(*part, *whole), bar(*part, *whole, class))
            }
            Self::Words(words) => write!(text, ">{words}"),
            Self::Name(name) => write!(text, " class=\"name\">{name}"),
            Self::Swatch { name, class, after } => write!(
                text,
                " class=\"name\"><svg class=\"swatch\" width=\"10\" height=\"10\" aria-hidden=\"true\"><rect \
                 width=\"10\" height=\"10\" rx=\"2\" class=\"{class}\"/></svg>{name}{after}"
            ),
            Self::Dash => write!(text, ">-"),
        };
        written.expect("writing to a string does not fail");
        text + "</" + close + ">"
    }
}

/// A thin bar as long as the share: seen at once, and no figure of its own.
fn bar(part: u64, whole: u64, class: &str) -> String {
    let width = if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 48.0).clamp(0.0, 48.0) };
    format!(
        "<svg class=\"bar\" width=\"48\" height=\"8\" aria-hidden=\"true\"><rect width=\"48\" height=\"8\" \
         class=\"track\"/><rect width=\"{width:.1}\" height=\"8\" class=\"{class}\"/></svg>"
    )
}

/// The class of the colour that the line of this rank has in every picture.
pub(super) fn band_class(rank: usize) -> String {
    const BANDS: usize = 10;
    if rank < BANDS { format!("b{rank}") } else { "other".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_rounded_figures_and_carry_exact_ones() {
        assert_eq!(
            Cell::Bytes(1280).html(false),
            "<td class=\"number\" data-bytes=\"1280\" title=\"1,280 bytes\">1.2 KiB</td>"
        );
        assert!(
            Cell::Change(-2048).html(false).contains("data-bytes=\"-2048\" title=\"-2,048 bytes\">-2.0 KiB")
        );
        assert!(Cell::Event(None).html(false).contains("data-count=\"-1\">before the first"));
        assert_eq!(Cell::words("a<b").html(true), "<th scope=\"row\">a&lt;b</th>");
        assert_eq!(Cell::name(Some("")).html(false), "<td>-</td>");
    }

    #[test]
    fn a_table_has_a_caption_heads_and_its_rest_last() {
        let table = Table {
            kind: "pools",
            place: 1,
            caption: "Pools",
            row_word: "pool",
            columns: vec![
                column("words", "kind", "kind"),
                column("bytes", "active_bytes", "active").sorted(),
            ],
            rows: vec![Row::new(vec![Cell::words("large"), Cell::Bytes(3)])],
            rest: vec![Row::rest("unknown", "no line known", vec![], 2)],
        };
        let text = table.render().unwrap_or_default();
        let places =
            ["<caption", "data-key=\"active_bytes\"", "aria-sort=\"descending\"", "large", "no line known"];
        let places = places.map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
        assert!(text.contains("data-table=\"pools\"") && text.contains("data-place=\"1\""), "{text}");
    }
}
