//! From bytes to chunks, and past damage.
//!
//! Owns finding the chunks of a file: one after another as long as they are whole, and after damage by a
//! search for the next place where a whole chunk with a right checksum begins. Does not look into chunks.

use crate::model::Warnings;

use super::MAX_RAW;
use super::chunk::{Chunk, Kind, MAGIC};
use super::cursor::{Fault, Parse};

/// Which checksums are computed: a checksum is over all bytes of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// All of them.
    All,
    /// All but those of chunks of events, which are nearly the whole file. As long as nothing looks damaged.
    AllButEvents,
}

/// What was found.
pub(super) struct Walk<'a> {
    /// Whole chunks in file order.
    pub(super) chunks: Vec<Chunk<'a>>,
    /// Whether chunks follow each other without damage.
    pub(super) intact: bool,
    /// Bytes at the end that begin a chunk which the file does not hold whole.
    pub(super) cut_bytes: usize,
}

/// Finds all whole chunks. Damaged stretches are counted as `damaged-chunk`. What follows a damaged stretch has a
/// right checksum, whatever `checksums` says.
pub(super) fn walk<'a>(bytes: &'a [u8], checksums: Checksums, warnings: &mut Warnings) -> Walk<'a> {
    let mut found = Walk { chunks: Vec::new(), intact: true, cut_bytes: 0 };
    // Crafted files hold many beginnings that all claim the rest of the file: bound the attempts' work.
    let mut search_budget = bytes.len().saturating_mul(4).saturating_add(4 * MAX_RAW);
    let mut at = 0;
    while at < bytes.len() {
        let fault = match next(bytes, at, checksums) {
            Ok(chunk) => {
                at = chunk.end;
                found.chunks.push(chunk);
                continue;
            }
            Err(fault) => fault,
        };
        let next = next_whole(bytes, at + 1, &mut search_budget);
        if next.is_none() && fault == Fault::Incomplete {
            found.cut_bytes = bytes.len() - at;
            break;
        }
        let end = next.unwrap_or(bytes.len());
        found.intact = false;
        warnings.add("damaged-chunk", || {
            let length = end - at;
            format!("{length} bytes from byte {at} on were skipped: {}", fault.what())
        });
        at = end;
    }
    found
}

/// The chunk at `at`.
fn next(bytes: &[u8], at: usize, checksums: Checksums) -> Parse<Chunk<'_>> {
    let chunk = Chunk::frame(bytes, at)?;
    if checksums == Checksums::All || chunk.kind != Kind::Events as u64 {
        chunk.check()?;
    }
    Ok(chunk)
}

/// Where the next whole chunk at or behind `from` begins.
fn next_whole(bytes: &[u8], from: usize, budget: &mut usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += find_magic(bytes.get(at..)?)?;
        if Chunk::parse(bytes, at).is_ok() {
            return Some(at);
        }
        *budget = budget.checked_sub(MAX_RAW.min(bytes.len() - at) / 16 + 64)?;
        at += MAGIC.len();
    }
}

fn find_magic(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|&byte| byte == MAGIC[0])?;
        if bytes[at..].starts_with(&MAGIC) {
            return Some(at);
        }
        from = at + 1;
    }
}
