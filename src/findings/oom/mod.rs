//! Out of memory: why a request failed, and what would have made it fit.
//!
//! Owns the verdict on every failed request ([`judge_all`]), the sums that prove it, and what the rules about
//! failures share: the evidence that each of them shows, the smallest change that would have helped, and advice
//! that fits the settings in force. Which rule fires is the rules' own business.

mod advice;
mod case;
mod change;
mod judge;
mod late;
mod refusal;
mod sums;
mod verdict;
mod words;

pub(crate) use advice::{against_pieces, replayed, torch_version};
pub(crate) use case::Case;
pub use judge::{Failure, OomFacts, failures, is_state_known, judge, judge_all};
pub use refusal::{Cap, Refusal};
pub use sums::Sums;
pub use verdict::{Outside, Verdict, VerdictKind};
