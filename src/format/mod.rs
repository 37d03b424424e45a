//! memlab's own trace format, version 1: `docs/trace-format.md` is normative, this is its reader and writer.
//!
//! Owns bytes ⇄ [`crate::model::Trace`]. A file is a plain sequence of MessagePack values, one per chunk:
//! `walk` finds the chunks, a module per kind of chunk reads and writes its contents, [`read()`] and
//! [`write()`] put them in order. Does not know other formats (`import`), nor what the events mean
//! (`rebuild`). Nothing here trusts a length from the file: each is bounded before memory is taken for it.

mod ahead;
mod annotations;
mod budget;
mod chunk;
mod codec;
mod column;
mod cursor;
mod events_count;
mod events_decode;
mod events_facts;
mod events_plan;
mod events_settle;
mod events_write;
mod fields;
mod header;
mod holders;
mod ids;
mod live;
mod marks;
mod notes;
mod packer;
mod process;
mod read;
mod recording;
mod reduced;
mod sample_rows;
mod segments;
mod settings;
mod states;
mod tables;
mod tables_write;
mod tensors;
mod walk;
mod write;

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod outline_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod spoiled;

pub use ahead::stated_events;
pub use codec::Codec;
pub use read::{is_trace, outline, read};
pub use recording::Recording;
pub use walk::Checksums;
pub use write::{WriteOptions, Writer, write};

#[cfg(test)]
pub(crate) use spoiled::with_payloads_that_do_not_decode;

/// Newest version of the format that this module writes: major, minor; what needs less is written as less. It
/// reads every minor version of this major.
pub const VERSION: (u32, u32) = (1, 4);

/// Most bytes that a chunk's payload may have, unpacked or as stored.
const MAX_RAW: usize = 16 << 20;

/// Most bytes that a chunk's facts may have.
const MAX_FACTS: usize = 64 << 10;

/// Most events in one chunk.
const MAX_CHUNK_EVENTS: usize = 1 << 20;

/// Most devices in one file. PyTorch counts them in eight bits.
const MAX_DEVICES: usize = 256;

/// Event numbers end here; 2^48 events would take longer than any job.
const MAX_EVENT_NUMBER: u64 = 1 << 48;
