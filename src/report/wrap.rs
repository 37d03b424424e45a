//! Plain Markdown laid out for a terminal: paragraphs and list items broken at words.
//!
//! Owns line breaking only. Text that comes from a trace must be escaped before it gets here; words that are
//! longer than a line stay whole. Tables and code blocks are left as they stand.

use super::escape::keep_start;

/// `text` with no line longer than `width` characters, as far as its words allow; no newline at the end.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let mut lines = Lines { done: Vec::new(), width };
    let mut paragraph = Vec::new();
    let mut verbatim = false;
    for line in text.trim().lines() {
        let bare = line.trim();
        let fence = bare.starts_with("```");
        if fence || verbatim || bare.starts_with('|') || bare.is_empty() {
            lines.paragraph(&std::mem::take(&mut paragraph));
            verbatim ^= fence;
            lines.done.push(line.trim_end().to_owned());
            continue;
        }
        if hang(bare) > 0 {
            lines.paragraph(&std::mem::take(&mut paragraph));
        }
        paragraph.push(line);
    }
    lines.paragraph(&paragraph);
    lines.done.join("\n")
}

/// `text` on at most `limit` lines of `width` characters, the later ones indented; what does not fit ends in an
/// ellipsis.
pub(super) fn broken(text: &str, limit: usize, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let current = lines.len() - 1;
        let length = word.chars().count();
        if used == 0 || used + 1 + length <= width || lines.len() == limit {
            let separator = if used == 0 { "" } else { " " };
            lines[current].extend([separator, word]);
            used += separator.len() + length;
            // More of it would not be seen.
            if lines.len() == limit && used > width {
                break;
            }
        } else {
            lines.push(format!("{}{word}", " ".repeat(indent)));
            used = indent + length;
        }
    }
    lines.iter().map(|line| keep_start(line.trim_end(), width).into_owned()).collect()
}

/// By how much the later lines of a list item are indented; 0 for a line that begins none.
fn hang(line: &str) -> usize {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    match line.get(digits..) {
        Some(rest) if digits > 0 && rest.starts_with(". ") => digits + 2,
        Some(rest) if digits == 0 && (rest.starts_with("- ") || rest.starts_with("* ")) => 2,
        _ => 0,
    }
}

struct Lines {
    done: Vec<String>,
    width: usize,
}

impl Lines {
    fn paragraph(&mut self, lines: &[&str]) {
        let Some(first) = lines.first() else { return };
        let indent = first.len() - first.trim_start().len();
        let later = indent + hang(first.trim_start());
        let mut line = " ".repeat(indent);
        let mut used = 0;
        for word in lines.iter().flat_map(|line| line.split_whitespace()) {
            let length = line.chars().count() + word.chars().count() + usize::from(used > 0);
            if used > 0 && length > self.width {
                self.done.push(std::mem::replace(&mut line, " ".repeat(later)));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
            used += 1;
        }
        self.done.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled_and_stay_apart() {
        assert_eq!(wrapped("one two\nthree four\n\nfive", 9), "one two\nthree\nfour\n\nfive");
        assert_eq!(wrapped("averyveryverylongword x", 5), "averyveryverylongword\nx");
        assert_eq!(wrapped("", 9), "");
    }

    #[test]
    fn later_lines_of_an_item_stand_under_its_text() {
        assert_eq!(wrapped("- one two three\n- four", 9), "- one two\n  three\n- four");
        assert_eq!(wrapped("12. one two", 8), "12. one\n    two");
        assert_eq!(wrapped("3 MiB or more", 7), "3 MiB\nor more");
    }

    #[test]
    fn what_does_not_fit_into_its_lines_ends_in_an_ellipsis() {
        assert_eq!(broken("one two three four", 2, 9, 2), ["one two", "  three …"]);
        assert_eq!(broken("one two", 1, 20, 2), ["one two"]);
    }

    #[test]
    fn tables_and_code_are_left_alone() {
        let table = "| a long cell | another |\n| --- | --- |";
        assert_eq!(wrapped(table, 10), table);
        let code = "before it\n```sh\nmemlab explain   growth --json\n```\nafter it";
        assert_eq!(wrapped(code, 12), code);
    }
}
