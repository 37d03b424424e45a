//! What a message advises, behind its last figure.
//!
//! Owns the names of settings that tips name: they tell versions apart, and say which settings are in force
//! where the tip depends on them.

use super::clauses::Form;
use super::fields::{Fields, begins_another};
use super::tokens::Tokens;

/// Among so many words behind the last figure a tip ends.
const TIP_WORDS: usize = 48;

/// More words than the rest of the last clause has.
const LAST_CLAUSE_WORDS: usize = 8;

/// What a message advises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Tip {
    /// Nothing.
    #[default]
    None,
    /// Its beginning is there, the name of the setting is not.
    Unnamed,
    /// `max_split_size_mb`.
    MaxSplit,
    /// `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
    CudaConf,
    /// `PYTORCH_HIP_ALLOC_CONF=expandable_segments:True`.
    HipConf,
    /// `PYTORCH_ALLOC_CONF=expandable_segments:True`.
    AllocConf,
    /// `empty_cache`.
    EmptyCache,
}

const NAMES: [(&str, Tip); 5] = [
    ("PYTORCH_CUDA_ALLOC_CONF=", Tip::CudaConf),
    ("PYTORCH_HIP_ALLOC_CONF=", Tip::HipConf),
    ("PYTORCH_ALLOC_CONF=", Tip::AllocConf),
    ("max_split_size_mb", Tip::MaxSplit),
    ("empty_cache", Tip::EmptyCache),
];

/// Reads what follows the clause that ends at the word `start`; gives the index behind the last word of the
/// message.
pub(super) fn read(tokens: &mut Tokens<'_>, start: usize, fields: &mut Fields) -> usize {
    let last_word: &[u8] = if fields.form == Some(Form::Brackets) { b"PyTorch" } else { b"unallocated" };
    let mut end = start;
    for at in start..start + TIP_WORDS {
        if tokens.get(at).is_none() || begins_another(tokens, at) {
            break;
        }
        if end == start && at < start + LAST_CLAUSE_WORDS && is_word(tokens, at, last_word) {
            fields.is_closed = ends_here(tokens, at);
            end = at + 1;
        } else if is_word(tokens, at, b"If") && is_word(tokens, at + 1, b"reserved") {
            fields.tip = Tip::Unnamed;
        } else if let Some(name) = name_at(tokens, at) {
            fields.tip = name;
            end = at + 1;
        } else if fields.tip != Tip::None && contains(tokens, at, "docs.pytorch.org") {
            fields.newer_link = true;
            end = at + 1;
        }
    }
    if fields.says_cached {
        fields.is_closed = true;
    }
    end
}

/// Whether the sentence ends with the word `at`, and something follows.
fn ends_here(tokens: &mut Tokens<'_>, at: usize) -> bool {
    let goes_on = tokens.get(at + 1).is_some();
    tokens.get(at).is_some_and(|word| {
        let point = word.text.iter().position(|byte| matches!(byte, b'.' | b')'));
        point.is_some_and(|point| goes_on || point + 1 < word.text.len())
    })
}

fn is_word(tokens: &mut Tokens<'_>, at: usize, expected: &[u8]) -> bool {
    tokens.get(at).is_some_and(|word| word.bare() == expected)
}

fn name_at(tokens: &mut Tokens<'_>, at: usize) -> Option<Tip> {
    NAMES.iter().find(|(name, _)| contains(tokens, at, name)).map(|(_, tip)| *tip)
}

/// Whether the word `at`, or the two halves of one there, contain `text`.
fn contains(tokens: &mut Tokens<'_>, at: usize, text: &str) -> bool {
    let Some(first) = tokens.get(at).map(|word| word.text.to_vec()) else { return false };
    let text = text.as_bytes();
    let has = |word: &[u8]| word.windows(text.len()).any(|part| part == text);
    if has(&first) {
        return true;
    }
    let second = tokens.get(at + 1).filter(|word| word.begins_line);
    second.is_some_and(|second| has(&[&first[..], &second.text[..]].concat()))
}
