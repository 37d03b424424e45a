//! Colour for terminal text, or none.
//!
//! Owns the four looks that memlab uses. Does not decide whether a terminal wants colour: the command line
//! does. Colour only repeats what the words say.

use std::fmt::Display;

/// Whether terminal text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to emit ANSI sequences.
    pub colour: bool,
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
const WARN: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();

impl Style {
    /// Text without any sequence.
    #[must_use]
    pub const fn plain() -> Self {
        Self { colour: false }
    }

    /// Text with sequences.
    #[must_use]
    pub const fn coloured() -> Self {
        Self { colour: true }
    }

    fn paint(self, style: anstyle::Style, text: impl Display) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// What matters most.
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint(BOLD, text)
    }

    /// What only helps to read the rest.
    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint(DIM, text)
    }

    /// A failure.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint(BAD, text)
    }

    /// What touches the figures.
    pub(crate) fn warn(self, text: impl Display) -> String {
        self.paint(WARN, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_sequences_and_coloured_text_ends_them() {
        assert_eq!(Style::plain().bad("OOM"), "OOM");
        let coloured = Style::coloured().bad("OOM");
        assert!(coloured.starts_with("\x1b[") && coloured.ends_with("\x1b[0m"));
    }
}
