//! Plain text columns: cells in, aligned lines out.
//!
//! Owns widths and alignment. Cells must be escaped already; colour is put on whole lines afterwards, so
//! that sequences never count as width.

use std::fmt::Write as _;

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// For words.
    Left,
    /// For figures.
    Right,
}

/// `rows` as lines with two spaces between columns; a last column of words is not padded.
pub(super) fn aligned(align: &[Align], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths = vec![0; align.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    rows.iter().map(|row| one_line(align, &widths, row)).collect()
}

fn one_line(align: &[Align], widths: &[usize], row: &[String]) -> String {
    let mut line = String::new();
    for (index, cell) in row.iter().enumerate() {
        let width = widths.get(index).copied().unwrap_or(0);
        if index > 0 {
            line.push_str("  ");
        }
        let written = match align.get(index) {
            Some(Align::Right) => write!(line, "{cell:>width$}"),
            _ => write!(line, "{cell:<width$}"),
        };
        written.expect("writing to a string does not fail");
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_end_together_and_words_begin_together() {
        let rows = [vec!["1".to_owned(), "a".to_owned()], vec!["100".to_owned(), "größe".to_owned()]];
        assert_eq!(aligned(&[Align::Right, Align::Left], &rows), ["  1  a", "100  größe"]);
    }
}
