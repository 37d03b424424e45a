//! Python stacks, each once.
//!
//! Owns the ids of strings, frames and stacks of the file's tables, and which of them are not in the file yet. Frames
//! are known by code object and position; the caller sees to it that a code object whose address stands here without a
//! stamp stays alive.

use rustc_hash::FxHashMap;

use crate::budget;
use crate::wire::{Chunk, Kind};

/// Stacks that are known by spots, at most: they take memory of the recorded program.
const MAX_KNOWN: usize = 1 << 14;

/// Where a frame is: address of its code object, the position in it, and 0, or a stamp of what the object says where
/// nothing keeps it alive.
pub(crate) type Spot = (usize, i32, u64);

/// What a spot means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u64,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct PythonTable {
    spots: FxHashMap<Spot, u32>,
    strings: FxHashMap<String, u32>,
    frames: FxHashMap<(u32, u32, u64), u32>,
    stacks: FxHashMap<Box<[u32]>, u32>,
    by_spots: FxHashMap<Box<[Spot]>, u32>,
    fresh_strings: Vec<String>,
    fresh_frames: Vec<(u32, u32, u64)>,
    fresh_stacks: Vec<Box<[u32]>>,
}

impl PythonTable {
    /// Whether it is known what the spot means.
    pub(crate) fn knows(&self, spot: &Spot) -> bool {
        self.spots.contains_key(spot)
    }

    /// Enters a spot. Answers whether it is new, and its code object must stay.
    pub(crate) fn learn(&mut self, spot: Spot, meaning: Meaning) -> bool {
        if self.knows(&spot) {
            return false;
        }
        let key = (self.string(meaning.function), self.string(meaning.file), meaning.line);
        let next = self.frames.len() as u32;
        let frame = *self.frames.entry(key).or_insert_with(|| {
            self.fresh_frames.push(key);
            next
        });
        self.spots.insert(spot, frame);
        true
    }

    /// Id of the stack of these spots, if it was asked for before.
    pub(crate) fn known(&self, spots: &[Spot]) -> Option<u32> {
        self.by_spots.get(spots).copied()
    }

    /// Id of the stack of these spots, innermost first, all of which are known.
    pub(crate) fn stack(&mut self, spots: &[Spot]) -> u32 {
        let frames: Box<[u32]> = spots.iter().filter_map(|spot| self.spots.get(spot).copied()).collect();
        if frames.is_empty() {
            return 0;
        }
        let next = self.stacks.len() as u32 + 1;
        let id = *self.stacks.entry(frames).or_insert_with_key(|frames| {
            self.fresh_stacks.push(frames.clone());
            next
        });
        if self.by_spots.len() >= MAX_KNOWN {
            self.by_spots.clear();
        }
        self.by_spots.insert(spots.into(), id);
        id
    }

    fn string(&mut self, text: String) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let next = self.strings.len() as u32 + 1;
        *self.strings.entry(text).or_insert_with_key(|text| {
            self.fresh_strings.push(text.clone());
            next
        })
    }

    /// A chunk with all rows that are not written yet, if there are any.
    pub(crate) fn drain(&mut self) -> Option<Chunk> {
        let strings = std::mem::take(&mut self.fresh_strings);
        let frames = std::mem::take(&mut self.fresh_frames);
        let stacks = std::mem::take(&mut self.fresh_stacks);
        if strings.is_empty() && frames.is_empty() && stacks.is_empty() {
            return None;
        }
        let stack_frames: usize = stacks.iter().map(|stack| stack.len()).sum();
        let eighths = ((strings.len() + frames.len() + stacks.len()) * 8 + stack_frames) as u64;
        let mut chunk = Chunk::with_cost(Kind::Tables, eighths, |eighths, payload| {
            budget::rows(eighths, budget::STACK_FRAME).saturating_add(payload)
        });
        let mut range = |key, length: usize, after: usize| {
            if length > 0 {
                chunk.fact(key).array(2).uint((after - length) as u64).uint(length as u64);
            }
        };
        range("strings", strings.len(), self.strings.len() + 1);
        range("frames", frames.len(), self.frames.len());
        range("stacks", stacks.len(), self.stacks.len() + 1);
        chunk.fact("stack_frames").uint(stack_frames as u64);
        pack(&mut chunk, &strings, &frames, &stacks);
        Some(chunk)
    }
}

fn pack(chunk: &mut Chunk, strings: &[String], frames: &[(u32, u32, u64)], stacks: &[Box<[u32]>]) {
    if !strings.is_empty() {
        let texts = chunk.entry("strings").array(strings.len());
        for text in strings {
            texts.text(text);
        }
    }
    if !frames.is_empty() {
        let functions: Vec<u64> = frames.iter().map(|frame| frame.0.into()).collect();
        let files: Vec<u64> = frames.iter().map(|frame| frame.1.into()).collect();
        let lines: Vec<u64> = frames.iter().map(|frame| frame.2).collect();
        chunk.column("frame_function", &functions, 1);
        chunk.column("frame_file", &files, 1);
        chunk.column("frame_line", &lines, 1);
    }
    if !stacks.is_empty() {
        let lengths: Vec<u64> = stacks.iter().map(|stack| stack.len() as u64).collect();
        let flat: Vec<u64> = stacks.iter().flatten().map(|&frame| frame.into()).collect();
        chunk.column("stack_length", &lengths, 1);
        chunk.column("stack_frame", &flat, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spots_of_one_line_are_one_frame() {
        let mut table = PythonTable::default();
        let meaning = Meaning { function: "step".into(), file: "train.py".into(), line: 12 };
        assert!(table.learn((1, 2, 0), meaning.clone()));
        assert!(!table.learn((1, 2, 0), meaning.clone()));
        assert!(table.learn((1, 4, 0), meaning));
        assert_eq!(table.stack(&[(1, 2, 0)]), 1);
        assert_eq!(table.stack(&[(1, 4, 0)]), 1);
        assert_eq!(table.stack(&[(9, 9, 0)]), 0);
        assert_eq!((table.known(&[(1, 4, 0)]), table.known(&[(9, 9, 0)])), (Some(1), None));
        assert_eq!(
            (table.fresh_strings.len(), table.fresh_frames.len(), table.fresh_stacks.len()),
            (2, 1, 1)
        );
        assert!(table.drain().is_some());
        assert!(table.drain().is_none());
    }
}
