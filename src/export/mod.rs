//! Export: a trace → a PyTorch snapshot.
//!
//! Owns the pickle that `pickle.load` and PyTorch's viewer read: protocol 4, the schema of 2.11 and later,
//! texts, frames and stacks written once and shared through the memo. What a snapshot has no place for
//! (steps, named tensors, facts of the process) goes as JSON under the extra key `memlab`, which PyTorch's
//! tools ignore. Does not know files.

mod memlab_key;
mod parts;
mod pickler;
mod snapshot;

pub use snapshot::write_snapshot;
