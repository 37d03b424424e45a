//! Markdown tables and lists that fit a budget by leaving out whole rows.
//!
//! Owns the promise that text is never cut in the middle of markup: what does not fit is counted. Cells
//! arrive escaped.

use crate::units::Count;

/// Collects Markdown under a limit in bytes, which is never less than the limit in characters.
pub(super) struct Page {
    text: String,
    limit: usize,
}

/// Room that the note about left-out rows takes.
const NOTE: usize = 40;

impl Page {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    /// What is finished, and takes no more.
    pub(super) fn of(text: String) -> Self {
        Self { limit: text.len(), text }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.text.len())
    }

    /// Adds `block` and an empty line, if it fits; says whether it did.
    pub(super) fn block(&mut self, block: &str) -> bool {
        let fits = block.len() + 2 <= self.room();
        if fits {
            self.text.extend([block, "\n\n"]);
        }
        fits
    }

    /// Adds a short remark for which there is room in any case: blocks leave that much.
    pub(super) fn note(&mut self, text: &str) {
        self.text.extend([text, "\n\n"]);
    }

    /// Adds what `part` holds; it had no more room than this page.
    pub(super) fn append(&mut self, part: Self) {
        self.text.push_str(&part.text);
    }

    pub(super) fn heading(&mut self, level: usize, text: &str) {
        self.block(&format!("{} {text}", "#".repeat(level)));
    }

    /// Adds the table's header and as many `rows` as fit into `share` bytes, then `last` rows always.
    pub(super) fn table(
        &mut self,
        header: &[&str],
        right: usize,
        rows: &[Vec<String>],
        last: &[Vec<String>],
        share: usize,
    ) {
        let mut head = row(header.iter().copied());
        head.push_str(&row(header
            .iter()
            .enumerate()
            .map(|(index, _)| if index < right { "--:" } else { "---" })));
        let tail: String = last.iter().map(|cells| row(cells.iter().map(String::as_str))).collect();
        let room = share.min(self.room());
        let Some(room) = room.checked_sub(head.len() + tail.len() + NOTE) else {
            return;
        };
        let rows: Vec<String> = rows.iter().map(|cells| row(cells.iter().map(String::as_str))).collect();
        let (body, hidden) = fitting(&rows, room);
        self.text.extend([head, body, tail, "\n".to_owned()]);
        self.more(hidden, "rows");
    }

    /// Adds as many `items` as fit into `share` bytes as a list.
    pub(super) fn list(&mut self, items: &[String], share: usize) {
        if items.is_empty() {
            return;
        }
        let items: Vec<String> = items.iter().map(|item| format!("- {item}\n")).collect();
        let Some(room) = share.min(self.room()).checked_sub(NOTE) else {
            return;
        };
        let (body, hidden) = fitting(&items, room);
        self.text.extend([body.as_str(), "\n"]);
        self.more(hidden, "entries");
    }

    fn more(&mut self, hidden: usize, what: &str) {
        if hidden > 0 {
            self.text.push_str(&format!("{} more {what}.\n\n", Count(hidden as u64)));
        }
    }
}

/// The first pieces that fit into `room`, and how many are left out.
fn fitting(pieces: &[String], mut room: usize) -> (String, usize) {
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let Some(left) = room.checked_sub(piece.len()) else {
            return (text, pieces.len() - index);
        };
        room = left;
        text.push_str(piece);
    }
    (text, 0)
}

fn row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line.extend([" ", cell, " |"]);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Vec<String>> {
        (0..count).map(|n| vec![format!("{n}"), "x".repeat(20)]).collect()
    }

    #[test]
    fn rows_that_do_not_fit_are_counted_and_the_last_ones_stay() {
        let mut page = Page::new(10_000);
        page.table(&["n", "name"], 1, &rows(100), &[vec!["-".to_owned(), "sum".to_owned()]], 300);
        let text = page.into_text();
        assert!(text.starts_with("| n | name |\n| --: | --- |\n| 0 | xxx"), "{text}");
        assert!(text.contains("| - | sum |\n\n") && text.ends_with(" more rows.\n\n"), "{text}");
        assert!(text.len() <= 300, "{}", text.len());
    }

    #[test]
    fn a_page_never_outgrows_its_limit() {
        for limit in (0..400).step_by(7) {
            let mut page = Page::new(limit);
            page.heading(2, "Lines");
            page.table(&["n", "name"], 1, &rows(30), &[], 10_000);
            page.list(&vec!["item".to_owned(); 30], 10_000);
            page.block(&"long ".repeat(30));
            assert!(page.into_text().len() <= limit.max(1));
        }
    }
}
