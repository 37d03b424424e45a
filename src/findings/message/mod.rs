//! Out-of-memory messages in the text of a log: found, read, explained.
//!
//! Owns every form of the message that PyTorch has had (`docs/oom-messages.md` shows them), what logs do to
//! it, and the verdict that its figures alone allow. Knows no trace: what only a recording can tell (which
//! lines hold the memory, what was pending) is left to the rules.

mod clause;
mod clauses;
mod explain;
mod fields;
mod fold;
mod front;
mod head;
mod judge;
mod kind;
mod read;
mod reasons;
mod remedy;
mod requested;
mod scan;
mod settings;
mod size;
mod sums;
mod tag;
mod tip;
mod tokens;
mod variant;

pub use explain::explain;
pub use fields::{Figure, OtherProcess};
pub use judge::{Confidence, judge};
pub use kind::{Kind, Platform};
pub use read::{Expandable, Message, Place};
pub use remedy::remedy;
pub use scan::{Scan, scan};
pub use size::{Printed, Size};
pub use sums::Sums;
pub use variant::Variant;
