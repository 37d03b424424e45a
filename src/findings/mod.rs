//! Findings: what the rebuilt history means.
//!
//! Owns the rules, one file each in `rules`, what they are handed ([`Scene`]) and what they say
//! ([`Finding`]); and why a request failed ([`judge_all`]).

mod attempts;
mod calls;
mod chains;
mod compared;
mod driver_lines;
mod duplicates;
mod facts;
pub mod faults;
mod finding;
mod ghosts;
mod growth;
mod holders;
mod jobs;
mod kept;
pub mod message;
mod oom;
mod optimizer_state;
mod outside_holders;
mod page;
mod passes;
mod releases;
mod reserve;
mod rule;
mod rules;
mod scene;
mod sizes;
mod thresholds;
mod workspaces;

pub use facts::{DeviceFacts, RankFacts};
pub use finding::{Finding, LineBytes, Severity};
pub use jobs::jobs;
pub use oom::{
    Cap, Failure, OomFacts, Outside, Refusal, Sums, Verdict, VerdictKind, failures, is_state_known, judge,
    judge_all,
};
pub use page::{index, looked_for, page, parts};
pub use rule::{Check, Guide, RULES, Rule, of_device, of_ranks, of_trace, rule};
pub use scene::{JudgedOom, Scene, SettingHelp, States, line_bytes};
