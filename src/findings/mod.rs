//! Findings: what the rebuilt history means.
//!
//! Owns the rules, one file each in `rules`, what they are handed ([`Scene`]) and what they say
//! ([`Finding`]); and why a request failed ([`judge`]).

mod facts;
pub mod faults;
mod finding;
mod ghosts;
mod page;
mod rule;
mod rules;
mod scene;
mod verdict;

pub use facts::{DeviceFacts, RankFacts};
pub use finding::{Finding, LineBytes, Severity};
pub use page::{index, looked_for, page, parts};
pub use rule::{Check, Guide, RULES, Rule, of_device, of_ranks, of_trace, rule};
pub use scene::{JudgedOom, Scene, SettingHelp, States};
pub use verdict::{OomFacts, Verdict, VerdictKind, judge};
