//! `rank-imbalance`: one rank needs much more than the others.
//!
//! Owns the rule over whole recordings. The rule over single steps is in [`by_step`], medians and differences of lines
//! are in [`median`]; which files are ranks of one job is [`findings::jobs`]'.

mod by_step;
mod median;

use crate::findings::{self, Check, DeviceFacts, Finding, Guide, LineBytes, RankFacts, Rule, Severity};
use crate::rebuild::Peaks;
use crate::units::Bytes;

use median::{line_differences, median};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "rank-imbalance",
    heading: "One rank needs much more than the others",
    guide: Guide {
        says: "Recordings of several ranks of one job were given, and one rank's peak stands far from that of the \
            others: the job fails on that rank first, while the others have room. Or: in each step another rank has \
            far more than the others at one line. The finding names the lines that make the difference.",
        fires: "Over the files of one call whose rank is known (from the recording, or from a number in the file or \
            folder name, such as `rank0`, `rank_3`, `gpu1` or `_r2.`) and distinct:\n\n\
            - a rank's peak of allocated, else of active, else of reserved bytes exceeds the median of all ranks by at \
            least 10 % and 1 GiB (`warning`); of two ranks the lower one is the median;\n\
            - no rank does, but one lies as far below the median (`info`);\n\
            - of at least 3 ranks and 3 steps, in at least three quarters of the steps one rank holds at one line at \
            least 2.5 times the median of all ranks and 16 MiB and 1 % of its peak more, and it is not always the same \
            rank (`warning`).",
        why: "Ranks differ by some percent for good reasons (the first and last stage of a pipeline, who keeps the \
            loss). Under 1 GiB nothing is gained by moving work. A rank that is overloaded in one step only shows in \
            no peak when every rank has its turn, as with experts that tokens are routed to: hence the second test.",
        needs: "Two or more files of one job in one call: `memlab analyze rank*.pickle`. The test by steps needs steps \
            in all of them. Two recordings of one rank, before and after a change, are no ranks.",
        is_not: "It is no leak and no fault of the allocator. Where ranks are meant to differ, as the stages of a \
            pipeline do, it says by how much.",
        remedy: "Look at the lines that make the difference. What one rank collects for all (outputs, metrics, a full \
            state dict for saving) belongs into host memory or into pieces. Uneven stages want another split; experts \
            with uneven load a capacity limit, an auxiliary loss, or recomputation.",
    },
    check: Check::Ranks(find),
};

fn find(ranks: &[RankFacts]) -> Vec<(usize, Finding)> {
    let mut found = Vec::new();
    for job in jobs(ranks) {
        found.extend(over_all(&job));
        found.extend(by_step::find(&job));
    }
    found
}

/// A rank of a job: its place in the call, its number, and the device that it works on.
#[derive(Clone, Copy)]
struct Rank<'a> {
    file: usize,
    number: u64,
    device: &'a DeviceFacts,
}

/// The ranks of each job among the files of a call, by number; those that have a device.
fn jobs(ranks: &[RankFacts]) -> Vec<Vec<Rank<'_>>> {
    let rank = |&file: &usize| {
        let devices = ranks[file].devices.iter();
        let device = devices.max_by_key(|device| (device.peaks.allocated.bytes, device.events))?;
        Some(Rank { file, number: ranks[file].rank?, device })
    };
    let mut jobs: Vec<Vec<Rank<'_>>> =
        findings::jobs(ranks).iter().map(|job| job.iter().filter_map(rank).collect()).collect();
    jobs.retain(|job| job.len() >= 2);
    for job in &mut jobs {
        job.sort_by_key(|rank| rank.number);
    }
    jobs
}

/// Counters in the order in which they are tried: what is allocated says most.
type Counter = (&'static str, fn(&Peaks) -> u64);
const COUNTERS: [Counter; 3] = [
    ("allocated", |peaks| peaks.allocated.bytes),
    ("active", |peaks| peaks.active.bytes),
    ("reserved", |peaks| peaks.reserved.bytes),
];

/// The rank that stands farthest above the median, or else farthest below it.
fn over_all(job: &[Rank<'_>]) -> Option<(usize, Finding)> {
    let far = |high: bool| COUNTERS.iter().find_map(|counter| farthest(job, *counter, high));
    far(true).or_else(|| far(false))
}

fn farthest(job: &[Rank<'_>], counter: Counter, high: bool) -> Option<(usize, Finding)> {
    const LEAST: u64 = 1 << 30;
    let peaks: Vec<u64> = job.iter().map(|rank| counter.1(&rank.device.peaks)).collect();
    let median = median(&peaks);
    let of_place = |&place: &usize| (peaks[place], std::cmp::Reverse(place));
    let places = 0..job.len();
    let place = if high { places.max_by_key(of_place)? } else { places.rev().min_by_key(of_place)? };
    let off = peaks[place].abs_diff(median);
    let is_far =
        off >= LEAST && u128::from(off) * 10 >= u128::from(median) && (peaks[place] > median) == high;
    is_far.then(|| (job[place].file, told(job, place, counter.0, &peaks, median)))
}

fn told(job: &[Rank<'_>], place: usize, counter: &'static str, peaks: &[u64], median: u64) -> Finding {
    let (rank, peak) = (job[place], peaks[place]);
    let (off, high) = (peak.abs_diff(median), peak > median);
    let percent = off as f64 * 100.0 / median.max(1) as f64;
    let title = format!(
        "Rank {} needs {} ({percent:.0} %) {} than the median of {} ranks: {} {counter} at its peak against {}",
        rank.number,
        Bytes(off),
        if high { "more" } else { "less" },
        job.len(),
        Bytes(peak),
        Bytes(median)
    );
    let severity = if high { Severity::Warning } else { Severity::Info };
    let lines = line_differences(job, place, counter == "active", high);
    let all: Vec<serde_json::Value> = job
        .iter()
        .zip(peaks)
        .map(|(rank, &bytes)| serde_json::json!({ "rank": rank.number, "peak_bytes": bytes }))
        .collect();
    Finding::new(&RULE, severity, rank.device.device, off, title)
        .evidence("rank", rank.number)
        .evidence("ranks", job.len() as u64)
        .evidence("counter", counter)
        .evidence("peak_bytes", peak)
        .evidence("median_bytes", median)
        .evidence(if high { "excess_bytes" } else { "shortfall_bytes" }, off)
        .evidence("percent", percent)
        .evidence("peaks", all)
        .remedy(remedy(rank.number, &lines, high))
        .lines(lines)
}

fn remedy(rank: u64, lines: &[LineBytes], high: bool) -> String {
    match (lines.first(), high) {
        (Some(line), true) => format!(
            "Most of the difference is at {}. If rank {rank} collects there what the others have too, keep it in host \
             memory or in pieces; if its share of the work is larger, split it anew.",
            line.label()
        ),
        (Some(line), false) => format!(
            "The others hold more than rank {rank}, most of it at {}: look there for what they keep and rank {rank} \
             does not.",
            line.label()
        ),
        (None, _) => {
            "The lines held at the peak are the same: compare the reports of both ranks, above all their \
            pending frees and fragmentation."
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
