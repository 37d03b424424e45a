//! Findings: what the rebuilt history means.
//!
//! Owns the rules, one file each in `rules`, what they are handed ([`Scene`]) and what they say
//! ([`Finding`]); and why a request failed ([`judge_all`]).

mod chains;
mod facts;
mod finding;
mod oom;
mod passes;
mod rule;
mod rules;
mod scene;

pub use facts::{DeviceFacts, RankFacts};
pub use finding::{Finding, LineBytes, Severity};
pub use oom::{Cap, OomFacts, Outside, Refusal, Sums, Verdict, VerdictKind, judge, judge_all};
pub use rule::{Check, Guide, RULES, Rule, of_device, of_ranks, of_trace, rule};
pub use scene::{JudgedOom, Scene, SettingHelp, States};
