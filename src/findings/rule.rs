//! What a rule is: a name, a page for people, and a check.
//!
//! Owns the list of all rules in the order of the contract. A rule is one file of `rules`.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::driver::Claims;
use crate::error::Result;

use super::rules;
use super::{DeviceFacts, Finding, RankFacts, Scene};
use crate::model::Trace;

/// A rule over the rebuilt history.
#[derive(Debug)]
pub struct Rule {
    /// Name in the JSON contract.
    pub name: &'static str,
    /// What it says, in a few words: the heading of its page.
    pub heading: &'static str,
    /// Its page.
    pub guide: Guide,
    /// How it is found.
    pub check: Check,
}

/// The page of a rule, part by part, as Markdown without headings.
#[derive(Debug)]
pub struct Guide {
    /// What it says when it fires.
    pub says: &'static str,
    /// When it fires: the exact test.
    pub fires: &'static str,
    /// Why these thresholds.
    pub why: &'static str,
    /// What a recording must hold for it.
    pub needs: &'static str,
    /// What it does not mean, and what it is often taken for.
    pub is_not: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// How a rule is found. Each check is handed all that is known, and returns what it found.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// On each device by itself.
    Device(fn(&Scene<'_>) -> Result<Vec<Finding>>),
    /// Over all devices of one file.
    Trace(fn(&Trace, &[DeviceFacts]) -> Vec<Finding>),
    /// Over the driver calls of one file.
    Calls(fn(&Trace, &Claims<'_>) -> Vec<Finding>),
    /// Over the files of one call: a finding and the index of the file that it is about.
    Ranks(fn(&[RankFacts]) -> Vec<(usize, Finding)>),
}

/// Every rule, in the order of the contract.
pub static RULES: [&Rule; 33] = [
    &rules::huge_request::RULE,
    &rules::capacity::RULE,
    &rules::near_capacity::RULE,
    &rules::fragmentation::RULE,
    &rules::idle_cache::RULE,
    &rules::stranded_stream::RULE,
    &rules::pending_free::RULE,
    &rules::pending_at_oom::RULE,
    &rules::growth::RULE,
    &rules::reference_cycle::RULE,
    &rules::lazy_optimizer_state::RULE,
    &rules::transient_peak::RULE,
    &rules::grow_by_copy::RULE,
    &rules::step_overlap::RULE,
    &rules::graph_in_eval::RULE,
    &rules::ineffective_checkpointing::RULE,
    &rules::private_pools::RULE,
    &rules::outside_allocator::RULE,
    &rules::driver_leak::RULE,
    &rules::preallocation::RULE,
    &rules::memory_cap::RULE,
    &rules::driver_refused::RULE,
    &rules::cache_flush::RULE,
    &rules::conflicting_settings::RULE,
    &rules::rank_imbalance::RULE,
    &rules::foreign_device::RULE,
    &rules::kept_by_exception::RULE,
    &rules::library_workspace::RULE,
    &rules::duplicate_state::RULE,
    &rules::rounding_waste::RULE,
    &rules::history_incomplete::RULE,
    &rules::stacks_missing::RULE,
    &rules::odd_schema::RULE,
];

/// The rule called `name`.
#[must_use]
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.name == name)
}

/// What the rules find on one device, most serious first; within one severity in the order of the rules. `threads` rules
/// are looked at side by side.
///
/// # Errors
/// [`crate::error::Error::Table`] when a table cannot be built.
pub fn of_device(scene: &Scene<'_>, threads: usize) -> Result<Vec<Finding>> {
    let of_devices = |rule: &&Rule| match rule.check {
        Check::Device(check) => Some(check),
        Check::Trace(_) | Check::Calls(_) | Check::Ranks(_) => None,
    };
    let checks: Vec<_> = RULES.iter().filter_map(of_devices).collect();
    // Threads of their own: what several rules ask for is computed by the first, and whoever waits for it must not have
    // begun another rule meanwhile, as a worker of a pool that steals might.
    let next = AtomicUsize::new(0);
    let look = || {
        let mut found = Vec::new();
        loop {
            let place = next.fetch_add(1, Relaxed);
            let Some(check) = checks.get(place) else { return found };
            found.push((place, check(scene)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(look)).collect();
        let mut all = look();
        for other in others {
            match other.join() {
                Ok(found) => all.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(place, _)| *place);
    let mut found = Vec::new();
    for (_, of_rule) in all {
        found.extend(of_rule?);
    }
    found.sort_by_key(|finding| finding.severity);
    Ok(found)
}

/// What the rules find over the devices of one file, and over its driver calls, where it has any: `claims`.
#[must_use]
pub fn of_trace(trace: &Trace, devices: &[DeviceFacts], claims: Option<&Claims<'_>>) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in RULES {
        match (rule.check, claims) {
            (Check::Trace(check), _) => found.extend(check(trace, devices)),
            (Check::Calls(check), Some(claims)) => found.extend(check(trace, claims)),
            _ => {}
        }
    }
    found
}

/// What the rules find over the files of one call, with the index of the file concerned.
#[must_use]
pub fn of_ranks(ranks: &[RankFacts]) -> Vec<(usize, Finding)> {
    let mut found = Vec::new();
    for rule in RULES {
        if let Check::Ranks(check) = rule.check {
            found.extend(check(ranks));
        }
    }
    found
}
