//! Compare: which line of one recording is which line of another.
//!
//! Owns the matching of files and lines between two recordings of a program that may have been edited in
//! between, or lie in another folder. Works on names and fingerprints alone: knows no trace, no report and no
//! figure of either. Both directions give the same pairs.

mod align;
mod files;
mod fingerprint;
mod lines;

pub use files::same_files;
pub use fingerprint::Fingerprint;
pub use lines::{LinePair, LineTraits, match_lines};
