//! Export: a trace in the formats of other tools.
//!
//! Owns three of them. A PyTorch snapshot: the pickle that `pickle.load` and PyTorch's viewer read (protocol 4,
//! the schema of 2.11 and later, texts, frames and stacks written once and shared through the memo; what a
//! snapshot has no place for goes as JSON under the extra key `memlab`, which PyTorch's tools ignore). A profile
//! for `pprof`. A timeline for Perfetto. Does not know files, nor who is charged for an allocation (`tables`).

mod memlab_key;
mod parts;
mod perfetto;
mod pickler;
mod pprof;
mod snapshot;

pub use perfetto::{LARGEST_ALLOCATIONS, LINES_SHOWN, write_perfetto};
pub use pprof::write_pprof;
pub use snapshot::write_snapshot;
