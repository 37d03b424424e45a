//! Findings: what the rebuilt history means.
//!
//! Owns the rules. So far there is one: why a request failed (`verdict`).

mod verdict;

pub use verdict::{OomFacts, Verdict, VerdictKind, judge};
