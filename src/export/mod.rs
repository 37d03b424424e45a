//! Export: a trace → files of other tools.
//!
//! Owns the formats. `snapshot` is the pickle that `pickle.load` and PyTorch's viewer read: protocol 4, the
//! schema of 2.11 and later, texts, frames and stacks written once and shared through the memo; what a snapshot
//! has no place for (steps, named tensors, facts of the process) goes as JSON under the extra key `memlab`, which
//! PyTorch's tools ignore. `folded` and `speedscope` are profiles of stacks, `chrome` is counters over time. Every
//! figure comes from `tables`; what stands in a profile is [`Profile`]'s to say. `pprof` is a profile too, `perfetto` a
//! timeline, both as protocol buffers. Does not know files, nor who is charged for an allocation (`tables`).

mod chrome;
mod device;
mod folded;
mod frame_text;
mod memlab_key;
mod parts;
mod perfetto;
mod pickler;
mod pprof;
mod profile;
mod snapshot;
mod speedscope;

pub use chrome::write_chrome;
pub use device::DeviceHistory;
pub use folded::write_folded;
pub use perfetto::{LARGEST_ALLOCATIONS, LINES_SHOWN, write_perfetto};
pub use pprof::write_pprof;
pub use profile::Profile;
pub use snapshot::write_snapshot;
pub use speedscope::write_speedscope;

/// Who wrote a file, where its format has a place for that.
pub(crate) const EXPORTER: &str = concat!("memlab ", env!("CARGO_PKG_VERSION"));
