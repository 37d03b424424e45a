//! A failure that a rule speaks of, with the evidence that every such rule shows.
//!
//! Owns which of several failures is told (the last of its kind), and the names of the figures.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::findings::{Finding, JudgedOom, LineBytes, Rule, Scene, Severity};
use crate::model::BlockState;
use crate::rebuild::{Moment, State};
use crate::simulate::Conf;
use crate::units::{Bytes, Count};

use super::change::{Need, Way};
use super::sums::Asker;
use super::verdict::Verdict;

/// Lines named in evidence.
const MOST_LINES: usize = 8;

/// The last failure of a kind.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    scene: &'a Scene<'a>,
    conf: Conf,
    /// The failure.
    pub(crate) judged: &'a JudgedOom,
    /// The allocator at that moment.
    pub(crate) state: Cow<'a, State>,
    /// How many of its kind there are.
    count: u64,
    first_event: u64,
}

impl<'a> Case<'a> {
    /// The last failure whose verdict is of a kind; `None` without one.
    pub(crate) fn last(scene: &'a Scene<'a>, is_of_kind: impl Fn(&Verdict) -> bool) -> Option<Self> {
        let mut kind = scene.ooms.iter().filter(|oom| is_of_kind(&oom.verdict));
        let first = kind.next()?;
        let (count, judged) = kind.fold((1, first), |(count, _), next| (count + 1, next));
        let state = scene.state_at(Moment(judged.oom.event));
        let conf = Conf::recorded(scene.settings());
        Some(Self { scene, conf, judged, state, count, first_event: first.oom.event })
    }

    /// Its verdict.
    pub(crate) fn verdict(&self) -> &'a Verdict {
        &self.judged.verdict
    }

    /// What it needed.
    pub(crate) fn need(&self) -> Need<'_> {
        let asker = Asker { oom: &self.judged.oom, pool: self.judged.pool, conf: &self.conf };
        Need::new(asker, self.verdict())
    }

    /// The bytes that each line's allocations held at that moment, by the line's number, most first.
    pub(crate) fn live_by_group(&self) -> Vec<(u32, u64)> {
        self.scene.by_group(self.live())
    }

    /// The bytes of each category that held any at that moment; together the allocated bytes.
    fn live_by_category(&self) -> Value {
        let categories = self.scene.categories();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (row, bytes) in self.live() {
            let sum = sums.entry(categories.of(row).name()).or_default();
            *sum = sum.saturating_add(bytes);
        }
        json!(sums)
    }

    /// Allocated blocks, as rows with their bytes.
    fn live(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let blocks = self.state.segments.iter().flat_map(|segment| &segment.blocks);
        let live = blocks.filter(|block| block.state == BlockState::ActiveAllocated);
        live.map(|block| (block.allocation as usize, block.bytes))
    }

    /// A finding about it, with the figures that all rules about failures show and the lines that held most.
    pub(crate) fn finding(
        &self,
        rule: &'static Rule,
        severity: Severity,
        bytes: u64,
        title: impl Into<String>,
    ) -> Finding {
        let lines = self.scene.by_line(self.live());
        let known = lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
        let finding = Finding::new(rule, severity, self.scene.id(), bytes, title)
            .evidence("event", self.judged.oom.event)
            .evidence("ooms", self.count)
            .evidence("first_event", self.first_event)
            .evidence("line", self.asking_line())
            .evidence("live_by_line", lines_json(&lines[..lines.len().min(MOST_LINES)]))
            .evidence("live_without_line_bytes", self.judged.oom.usage.allocated_bytes.saturating_sub(known))
            .evidence("live_by_category", self.live_by_category());
        limits(sums(finding, self.judged), self.verdict()).lines(lines)
    }

    /// The line that asked.
    fn asking_line(&self) -> Option<String> {
        let line = self.scene.line_of_stack(self.judged.oom.stack, self.judged.oom.size)?;
        Some(line.label())
    }

    /// Whether the request would have been served without the blocks of the line with this number.
    pub(crate) fn fits_without(&self, group: u32) -> bool {
        let of_row = &self.scene.lines.of_allocation;
        self.need().fits_without(&self.state, |row| of_row.get(row) == Some(&group))
    }

    /// Adds the fewest live bytes without which the request would have been served, and says so.
    pub(crate) fn with_smallest_change(&self, finding: Finding) -> (Finding, Option<String>) {
        let Some(change) = self.need().smallest_change(&self.state).filter(|change| change.bytes > 0) else {
            return (finding, None);
        };
        let lines = self.scene.by_line(change.blocks.iter().copied());
        let (way, how) = match change.way {
            Way::Hole => ("hole", "one hole would have been large enough".to_owned()),
            Way::Segments(count) => {
                let went =
                    if count == 1 { "1 whole segment" } else { &format!("{} whole segments", Count(count)) };
                ("segments", format!("{went} would have gone back to the driver, which then had enough"))
            }
        };
        let count = change.blocks.len() as u64;
        let blocks =
            if count == 1 { "1 live block".to_owned() } else { format!("{} live blocks", Count(count)) };
        let whose = match lines.as_slice() {
            [] => String::new(),
            [only] => format!(" of {}", only.label()),
            [first, ..] => format!(" (most of them of {})", first.label()),
        };
        let said = format!(
            "Without {blocks}{whose}, {} in all, the request would have fitted: {how}.",
            Bytes(change.bytes)
        );
        let finding = finding
            .evidence("change_way", way)
            .evidence("change_blocks", count)
            .evidence("change_bytes", change.bytes)
            .evidence("change_lines", lines_json(&lines[..lines.len().min(MOST_LINES)]));
        (finding, Some(said))
    }
}

/// Lines as the report shows them.
pub(crate) fn lines_json(lines: &[LineBytes]) -> Value {
    let one = |line: &LineBytes| json!({ "file": line.file, "line": line.line, "function": line.function, "bytes": line.bytes });
    lines.iter().map(one).collect()
}

fn sums(finding: Finding, judged: &JudgedOom) -> Finding {
    let sums = &judged.verdict.sums;
    let mut finding = finding
        .evidence("requested_bytes", sums.request_bytes)
        .evidence("segment_bytes", sums.segment_bytes)
        .evidence("device_free_bytes", sums.device_free_bytes)
        .evidence("reserved_bytes", sums.reserved_bytes)
        .evidence("active_bytes", sums.active_bytes)
        .evidence("allocated_bytes", judged.oom.usage.allocated_bytes)
        .evidence("pending_free_bytes", sums.pending_free_bytes)
        .evidence("slack_bytes", sums.slack_bytes)
        .evidence("stream", judged.oom.stream)
        .evidence("pool", json!([judged.pool.0, judged.pool.1]));
    if sums.is_looked_at {
        finding = finding
            .evidence("usable_free_bytes", sums.usable_free_bytes)
            .evidence("usable_free_blocks", sums.usable_free_blocks)
            .evidence("largest_free_block_bytes", sums.largest_free_block_bytes)
            .evidence("largest_free_block_elsewhere_bytes", sums.largest_elsewhere_bytes)
            .evidence("private_pool_free_bytes", sums.private_free_bytes);
    }
    finding
}

fn limits(mut finding: Finding, verdict: &Verdict) -> Finding {
    if let Some(total) = verdict.total_bytes {
        finding = finding.evidence("device_total_bytes", total);
    }
    if let Some(outside) = verdict.outside {
        finding = finding
            .evidence("outside_bytes", outside.bytes)
            .evidence("outside_expected_bytes", outside.expected_bytes)
            .evidence("outside_unexplained_bytes", outside.unexplained_bytes);
    }
    let Some(cap) = verdict.refusal.cap() else { return finding };
    match cap.allowed_bytes {
        Some(allowed) => finding.evidence("cap_bytes", allowed),
        None => finding
            .evidence("cap_at_least_bytes", cap.at_least_bytes)
            .evidence("cap_below_bytes", cap.below_bytes),
    }
}
