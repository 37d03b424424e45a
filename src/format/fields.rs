//! Maps with text keys, and the chunk-local lists of texts that columns point into.
//!
//! Owns the rule for unknown keys: passed over and counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::model::Warnings;

use super::column::{pack_offset, read_small};
use super::cursor::{Cursor, Fault, Parse};
use super::packer::MapPacker;

/// Reads the map in `bytes`, or no map at all. `entry` gets each key and the cursor before its value, and
/// answers whether it knows the key; if not, the value is skipped and counted.
pub(super) fn read_map<'a>(
    bytes: &'a [u8],
    warnings: &mut Warnings,
    mut entry: impl FnMut(&str, &mut Cursor<'a>) -> Parse<bool>,
) -> Parse<()> {
    let mut cursor = Cursor::new(bytes, 0);
    if bytes.is_empty() {
        return Ok(());
    }
    for _ in 0..cursor.map()? {
        let key = cursor.text()?;
        if !entry(&key, &mut cursor)? {
            cursor.skip()?;
            unknown_key(warnings, &key);
        }
    }
    Ok(())
}

/// Counts a key that this version does not know.
pub(super) fn unknown_key(warnings: &mut Warnings, key: &str) {
    warnings.add("unknown-key", || {
        let key: String = key.chars().take(64).collect();
        format!("key `{key}` of the trace is not known to this version and was skipped")
    });
}

/// Reads a pair of integers.
pub(super) fn read_pair(cursor: &mut Cursor<'_>) -> Parse<(u64, u64)> {
    let length = cursor.array()?;
    let pair = (cursor.uint()?, cursor.uint()?);
    for _ in 2..length {
        cursor.skip()?;
    }
    if length < 2 { Err(Fault::Wrong("fewer than two integers")) } else { Ok(pair) }
}

/// Texts of one chunk, each once, for writing.
#[derive(Debug, Default)]
pub(super) struct TextList<'t> {
    numbers: BTreeMap<&'t str, u64>,
    texts: Vec<&'t str>,
}

impl<'t> TextList<'t> {
    /// The number of `text` in this chunk.
    pub(super) fn number(&mut self, text: &'t str) -> u64 {
        let next = self.texts.len() as u64;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }

    /// A column of numbers for `texts`.
    pub(super) fn column(&mut self, map: &mut MapPacker, key: &str, texts: impl Iterator<Item = &'t str>) {
        let numbers: Vec<u64> = texts.map(|text| self.number(text)).collect();
        pack_offset(map.key(key), &numbers, 0);
    }

    /// Enters the list as key `texts`.
    pub(super) fn pack(&self, map: &mut MapPacker) {
        let packer = map.key("texts");
        packer.array(self.texts.len());
        for text in &self.texts {
            packer.text(text);
        }
    }
}

/// Texts of one chunk, for reading.
pub(super) type Texts<'a> = Vec<Cow<'a, str>>;

/// Reads an array of texts.
pub(super) fn read_texts<'a>(cursor: &mut Cursor<'a>) -> Parse<Texts<'a>> {
    // No capacity from the file: each text takes at least a byte of it.
    let length = cursor.array()?;
    (0..length).map(|_| cursor.text()).collect()
}

/// A text column: one number per row, and the bytes that its texts take when copied to the rows.
pub(super) struct TextColumn {
    numbers: Vec<u32>,
}

impl TextColumn {
    /// All rows empty.
    pub(super) fn empty() -> Self {
        Self { numbers: Vec::new() }
    }

    /// Reads a column of `count` numbers.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Parse<Self> {
        Ok(Self { numbers: read_small(cursor, count)? })
    }

    /// The text of `row`; empty where the file gives none.
    pub(super) fn get<'t>(&self, row: usize, texts: &'t Texts<'_>) -> &'t str {
        let number = self.numbers.get(row).copied();
        number.and_then(|number| texts.get(number as usize)).map_or("", |text| text)
    }

    /// Bytes of all rows together.
    pub(super) fn bytes(&self, texts: &Texts<'_>) -> u64 {
        (0..self.numbers.len()).map(|row| self.get(row, texts).len() as u64).sum()
    }

    /// Rows that name no text of the list.
    pub(super) fn unknown(&self, texts: &Texts<'_>) -> u64 {
        self.numbers.iter().filter(|&&number| number as usize >= texts.len()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn unknown_keys_are_skipped_and_counted() {
        let mut map = MapPacker::default();
        map.uint("count", 3).key("later").array(2).text("x").map(0);
        map.uint("first", 5);
        let bytes = map.into_bytes();
        let (mut seen, mut warnings) = (Vec::new(), Warnings::default());
        read_map(&bytes, &mut warnings, |key, cursor| {
            if key == "later" {
                return Ok(false);
            }
            seen.push((key.to_owned(), cursor.uint()?));
            Ok(true)
        })
        .unwrap();
        assert_eq!(seen, [("count".to_owned(), 3), ("first".to_owned(), 5)]);
        assert_eq!(warnings.count("unknown-key"), 1);
    }

    #[test]
    fn texts_stand_once_in_their_list() {
        let mut list = TextList::default();
        let mut map = MapPacker::default();
        list.column(&mut map, "name", ["a", "b", "a"].into_iter());
        assert_eq!(list.texts, ["a", "b"]);
    }
}
