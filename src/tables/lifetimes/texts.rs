//! Texts by number, each once, and none longer than a page can use.
//!
//! Owns the cut: a trace may hold names of megabytes.

use std::collections::HashMap;

use crate::model::{StringId, Trace};
use crate::rebuild::NONE;

/// The most characters of a text that are kept, the `…` at the cut included.
const MOST_CHARACTERS: usize = 400;

/// Distinct texts in order of first use.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    all: Vec<String>,
    known: HashMap<String, u32>,
    /// By string number of the trace: names, and paths, which are cut at the other end.
    names: Vec<u32>,
    paths: Vec<u32>,
    bytes: usize,
}

impl Texts {
    /// The number of a name of the trace; its beginning is kept.
    pub fn name(&mut self, trace: &Trace, id: StringId) -> u32 {
        if let Some(&known) = self.names.get(id.0 as usize).filter(|&&known| known != NONE) {
            return known;
        }
        let number = self.text(trace.strings.get(id));
        set(&mut self.names, id, number);
        number
    }

    /// The number of a path of the trace; its end is kept.
    pub fn path(&mut self, trace: &Trace, id: StringId) -> u32 {
        if let Some(&known) = self.paths.get(id.0 as usize).filter(|&&known| known != NONE) {
            return known;
        }
        let number = self.enter(keep_end(trace.strings.get(id)));
        set(&mut self.paths, id, number);
        number
    }

    /// The number of any other text.
    pub fn text(&mut self, text: &str) -> u32 {
        self.enter(keep_start(text))
    }

    /// Bytes of all texts together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The texts, by number.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.all
    }

    fn enter(&mut self, text: String) -> u32 {
        if let Some(&known) = self.known.get(&text) {
            return known;
        }
        let number = self.all.len() as u32;
        self.bytes += text.len();
        self.all.push(text.clone());
        self.known.insert(text, number);
        number
    }
}

fn set(column: &mut Vec<u32>, id: StringId, number: u32) {
    let at = id.0 as usize;
    if column.len() <= at {
        column.resize(at + 1, NONE);
    }
    column[at] = number;
}

fn keep_start(text: &str) -> String {
    if text.char_indices().nth(MOST_CHARACTERS).is_none() {
        return text.to_owned();
    }
    text.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}

fn keep_end(text: &str) -> String {
    if text.char_indices().nth(MOST_CHARACTERS).is_none() {
        return text.to_owned();
    }
    let at = text.char_indices().nth_back(MOST_CHARACTERS - 2).map_or(0, |(at, _)| at);
    format!("…{}", &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_beginning_and_long_paths_their_end() {
        let mut trace = Trace::default();
        let long = trace.strings.intern(&format!("ä{}z", "x".repeat(100_000)));
        let exact = trace.strings.intern(&"y".repeat(MOST_CHARACTERS));
        let mut texts = Texts::default();
        let (name, path) = (texts.name(&trace, long), texts.path(&trace, long));
        let kept = texts.name(&trace, exact);
        assert_eq!((name, path, texts.path(&trace, exact)), (0, 1, kept));
        assert!(texts.texts()[0].starts_with('ä') && texts.texts()[0].ends_with('…'));
        assert!(texts.texts()[1].starts_with('…') && texts.texts()[1].ends_with('z'));
        assert!(texts.texts().iter().all(|text| text.chars().count() == MOST_CHARACTERS));
        assert_eq!(texts.text(&"y".repeat(MOST_CHARACTERS)), kept);
    }
}
