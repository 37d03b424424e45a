//! Blobs: the figures of a page, packed.
//!
//! Owns the container (a JSON header and columns of numbers, compressed, as base64) and the cuts that keep the
//! report's own blob small. What a device's header says is put together by `analysis`; the scripts of the page
//! read both. The same figures always give the same bytes.

mod column;
mod container;
mod cut;
mod pages;

pub use column::Column;
pub use container::{Part, pack, packed_bytes};
pub use pages::{Blob, BlobOptions, Budget, PageDevice, blobs};

/// The largest whole number that a script holds exactly; larger ones become this one.
pub const MOST_EXACT: u64 = (1 << 53) - 1;
