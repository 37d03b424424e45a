//! In each step another rank is overloaded: seen in no peak when every rank has its turn.

use std::collections::BTreeMap;

use crate::findings::{Finding, LineBytes, Severity};
use crate::units::{Bytes, Count};

use super::median::{Place, median, place};
use super::{RULE, Rank};

/// A rank is overloaded at a line from this excess on, and this share of its peak.
const LEAST: u64 = 16 << 20;
const LEAST_PERCENT: u128 = 1;

/// Steps in which some rank was overloaded at a line.
#[derive(Default)]
struct Overloads {
    steps: u64,
    /// Place in the job and excess of the worst.
    worst: Option<(usize, u64)>,
    /// How often each rank was the one.
    turns: BTreeMap<usize, u64>,
}

/// The line at which ranks take turns in being overloaded, if there is one.
pub(super) fn find(job: &[Rank<'_>]) -> Option<(usize, Finding)> {
    const LEAST_RANKS: usize = 3;
    const LEAST_STEPS: usize = 3;
    let steps = job.iter().map(|rank| rank.device.step_lines.len()).min()?;
    if job.len() < LEAST_RANKS || steps < LEAST_STEPS {
        return None;
    }
    let mut by_line: BTreeMap<Place<'_>, Overloads> = BTreeMap::new();
    for step in 0..steps {
        let mut bytes: BTreeMap<Place<'_>, Vec<u64>> = BTreeMap::new();
        for (at, rank) in job.iter().enumerate() {
            for line in &rank.device.step_lines[step] {
                bytes.entry(place(line)).or_insert_with(|| vec![0; job.len()])[at] = line.bytes;
            }
        }
        for (place, bytes) in bytes {
            if let Some((at, excess)) = overloaded(job, &bytes) {
                by_line.entry(place).or_default().add(at, excess);
            }
        }
    }
    let needed = (steps as u64 * 3).div_ceil(4).max(LEAST_STEPS as u64);
    let takes_turns = |found: &Overloads| found.turns.values().all(|&turns| turns * 4 <= found.steps * 3);
    let excess = |found: &Overloads| found.worst.map(|(_, excess)| excess);
    let (place, found) = by_line
        .into_iter()
        .filter(|(_, found)| found.steps >= needed && takes_turns(found))
        .max_by_key(|(_, found)| excess(found))?;
    let (at, excess) = found.worst?;
    Some((job[at].file, told(job, place, &found, at, excess, steps as u64)))
}

impl Overloads {
    fn add(&mut self, at: usize, excess: u64) {
        self.steps += 1;
        *self.turns.entry(at).or_default() += 1;
        if self.worst.is_none_or(|(_, before)| excess > before) {
            self.worst = Some((at, excess));
        }
    }
}

/// The one rank that holds 2.5 times the median or more, with its excess.
fn overloaded(job: &[Rank<'_>], bytes: &[u64]) -> Option<(usize, u64)> {
    let median = median(bytes);
    let at = (0..bytes.len()).rev().max_by_key(|&at| bytes[at])?;
    let excess = bytes[at] - median;
    let peak = job[at].device.peaks.allocated.bytes;
    let is_much = u128::from(bytes[at]) * 2 >= u128::from(median) * 5
        && excess >= LEAST
        && u128::from(excess) * 100 >= u128::from(peak) * LEAST_PERCENT;
    is_much.then_some((at, excess))
}

fn told(
    job: &[Rank<'_>],
    (file, line, function): Place<'_>,
    found: &Overloads,
    at: usize,
    excess: u64,
    steps: u64,
) -> Finding {
    let line = LineBytes { file: file.to_owned(), line, function: function.to_owned(), bytes: excess };
    let title = format!(
        "In {} of {} steps one rank holds at least 2.5 times the median at {}, and not always the same: {} of {} \
         ranks had their turn, with up to {} more than the median",
        Count(found.steps),
        Count(steps),
        line.label(),
        found.turns.len(),
        job.len(),
        Bytes(excess)
    );
    Finding::new(&RULE, Severity::Warning, job[at].device.device, excess, title)
        .evidence("rank", job[at].number)
        .evidence("ranks", job.len() as u64)
        .evidence("ranks_overloaded", found.turns.len() as u64)
        .evidence("steps", steps)
        .evidence("steps_overloaded", found.steps)
        .evidence("excess_bytes", excess)
        .remedy(format!(
            "The load of {} moves from rank to rank, so each must keep room for the worst step: {}. Limit what one rank \
             may get (a capacity factor), balance the routing, or recompute what this line keeps.",
            line.label(),
            Bytes(excess)
        ))
        .lines(vec![line])
}
