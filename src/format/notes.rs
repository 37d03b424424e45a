//! Chunks of warnings: what was met when the recording was made or converted.
//!
//! Owns giving a kind from a file the static lifetime that the model's warnings have: every distinct name is
//! kept once for the life of the process, and only so many of them.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::model::Warnings;

use super::budget::{self, PLAIN_BYTE};
use super::chunk::{Chunk, Kind};
use super::cursor::{Fault, Parse};
use super::fields::read_map;
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;

/// Kept names, and bytes of each.
const MAX_KINDS: usize = 256;
const MAX_KIND_BYTES: usize = 64;
/// Warnings of a file that are kept apart; further ones are only counted.
const MAX_WARNINGS: u64 = 1_000;
/// Largest count that is believed: sums of them stay far from overflow.
const MAX_COUNT: u64 = 1 << 40;

/// Stands for a kind that is not kept.
const RECORDED: &str = "recorded-warning";

/// Writes all warnings, if there are any.
pub(super) fn write(sink: &mut Sink<'_>, warnings: &Warnings) -> io::Result<()> {
    let all: Vec<_> = warnings.iter().collect();
    if all.is_empty() {
        return Ok(());
    }
    let mut payload = MapPacker::default();
    let packer = payload.key("warnings");
    packer.array(all.len());
    for warning in all {
        packer.array(3).text(warning.kind).uint(warning.count).text(&warning.text);
    }
    sink.emit(Kind::Warnings, MapPacker::default(), payload, |raw_len| {
        budget::rows(raw_len as u64, PLAIN_BYTE)
    })
}

/// Adds the warnings of a chunk to those that the file holds.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    if !context.budget.spend(budget::rows(chunk.raw_len as u64, PLAIN_BYTE), chunk.end) {
        return Err(Fault::Wrong("more warnings than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut recorded = Warnings::default();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        if key != "warnings" {
            return Ok(false);
        }
        for _ in 0..cursor.array()? {
            let length = cursor.array()?;
            let (kind, count, text) = (cursor.text()?, cursor.uint()?, cursor.text()?);
            for _ in 3..length {
                cursor.skip()?;
            }
            // What the recorder counted apart stays apart, and in its order.
            context.recorded_warnings += 1;
            let (kind, subject) = match context.recorded_warnings {
                0..=MAX_WARNINGS => (kept(&kind), format!("recorded {:06}", context.recorded_warnings)),
                _ => (RECORDED, String::new()),
            };
            recorded.add_about(kind, &subject, count.min(MAX_COUNT), || text.into_owned());
        }
        Ok(true)
    })?;
    context.recorded.merge(recorded);
    Ok(())
}

fn kept(kind: &str) -> &'static str {
    static KINDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if kind.len() > MAX_KIND_BYTES {
        return RECORDED;
    }
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kinds.get(kind) {
        return known;
    }
    if kinds.len() >= MAX_KINDS {
        return RECORDED;
    }
    let kept: &'static str = Box::leak(kind.to_owned().into_boxed_str());
    kinds.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_kept_once_and_long_ones_are_not() {
        let kind = String::from("history-incomplete");
        assert!(std::ptr::eq(kept(&kind), kept("history-incomplete")));
        assert_eq!(kept(&"x".repeat(MAX_KIND_BYTES + 1)), RECORDED);
    }
}
