//! Jobs of a few ranks, as figures.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::rebuild::{Moment, Peak};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn line(file: &str, bytes: u64) -> LineBytes {
    LineBytes { file: file.to_owned(), line: 9, function: "f".to_owned(), bytes }
}

/// A rank with this allocated peak, of which `extra` is at another line than the rest.
fn rank(number: u64, peak: u64, extra: u64) -> RankFacts {
    let mut device = DeviceFacts {
        events: 10,
        lines_at_peak: vec![line("model.py", peak - extra), line("collect.py", extra)],
        ..DeviceFacts::default()
    };
    let peak = Peak { bytes: peak, moment: Moment(1) };
    (device.peaks.allocated, device.peaks.active, device.peaks.reserved) = (peak, peak, peak);
    RankFacts {
        path: format!("run/rank{number}.pickle"),
        job: "run/rank#.pickle".to_owned(),
        folder: "run".to_owned(),
        rank: Some(number),
        world_size: None,
        devices: vec![device],
    }
}

fn peaks(gib: &[f64]) -> Vec<RankFacts> {
    gib.iter().enumerate().map(|(n, &gib)| rank(n as u64, (gib * GIB as f64) as u64, 0)).collect()
}

#[test]
fn a_rank_that_needs_much_more_is_named_with_the_lines_that_make_it() {
    let mut job = peaks(&[20.0, 20.5, 19.5, 20.0]);
    job[1] = rank(1, 26 * GIB, 6 * GIB);
    let found = find(&job);
    assert_eq!(found.len(), 1);
    let (file, finding) = &found[0];
    assert_eq!((*file, finding.severity, finding.bytes), (1, Severity::Warning, 6 * GIB));
    assert_eq!((finding.lines[0].file.as_str(), finding.lines[0].bytes), ("collect.py", 6 * GIB));
    assert_eq!((&finding.evidence["rank"], &finding.evidence["counter"]), (&1.into(), &"allocated".into()));
}

#[test]
fn both_thresholds_must_be_met() {
    assert!(find(&peaks(&[30.0, 30.0, 32.9])).is_empty(), "2.9 GiB, but under 10 %");
    assert!(find(&peaks(&[5.0, 5.0, 5.9])).is_empty(), "18 %, but under 1 GiB");
    assert_eq!(find(&peaks(&[5.0, 5.0, 6.0])).len(), 1);
    assert_eq!(find(&peaks(&[30.0, 30.0, 33.0])).len(), 1);
}

#[test]
fn of_two_ranks_the_lower_one_is_what_is_normal() {
    let found = find(&peaks(&[10.0, 12.0]));
    assert_eq!((found[0].0, found[0].1.bytes), (1, 2 * GIB));
    assert!(find(&peaks(&[10.0])).is_empty());
}

#[test]
fn a_rank_that_lacks_what_the_others_hold_is_worth_knowing() {
    let mut job: Vec<_> = (0..4).map(|n| rank(n, 17 * GIB, GIB)).collect();
    job[0] = rank(0, 16 * GIB, 0);
    assert!(find(&job).is_empty(), "5.9 %");
    for rank in &mut job[1..] {
        let device = &mut rank.devices[0];
        device.peaks.active.bytes = 21 * GIB;
        device.lines_at_active_peak = Some(vec![line("model.py", 16 * GIB), line("broadcast.py", 5 * GIB)]);
    }
    let found = find(&job);
    let (file, finding) = &found[0];
    assert_eq!((found.len(), *file, finding.severity), (1, 0, Severity::Info));
    assert_eq!((finding.bytes, finding.lines[0].file.as_str()), (5 * GIB, "broadcast.py"));
    assert_eq!(finding.evidence["counter"], "active");
}

#[test]
fn recordings_of_one_rank_are_no_job() {
    let mut before_and_after = peaks(&[10.0, 20.0]);
    before_and_after[1].rank = Some(0);
    assert!(find(&before_and_after).is_empty());
    before_and_after[1].rank = None;
    assert!(find(&before_and_after).is_empty());
    let mut other_job = peaks(&[10.0, 20.0]);
    (other_job[0].world_size, other_job[1].world_size) = (Some(2), Some(4));
    assert!(find(&other_job).is_empty());
}

#[test]
fn two_jobs_in_one_call_are_told_apart_by_their_names() {
    let mut files = peaks(&[10.0, 10.0, 20.0, 23.0]);
    for (file, rank) in files.iter_mut().zip([0, 1, 0, 1]) {
        file.rank = Some(rank);
    }
    assert!(find(&files).is_empty(), "one name for both");
    for file in &mut files[2..] {
        file.job = "after/rank#.pickle".to_owned();
    }
    let found = find(&files);
    assert_eq!((found.len(), found[0].0), (1, 3));
}

/// Four ranks in four steps; in step `s` rank `heavy(s)` gets 2.5 times as much.
fn routed(heavy: impl Fn(usize) -> usize, base: u64) -> Vec<RankFacts> {
    let mut job: Vec<_> = (0..4).map(|n| rank(n, 8 * GIB, 0)).collect();
    for (number, rank) in job.iter_mut().enumerate() {
        let bytes = |step| if heavy(step) == number { base * 5 / 2 } else { base };
        rank.devices[0].step_lines =
            (0..4).map(|step| vec![line("moe.py", bytes(step)), line("head.py", 100 * MIB)]).collect();
    }
    job
}

#[test]
fn an_overload_that_moves_from_rank_to_rank_shows_step_by_step() {
    let found = find(&routed(|step| step, 400 * MIB));
    assert_eq!(found.len(), 1);
    let finding = &found[0].1;
    assert_eq!((finding.bytes, finding.lines[0].file.as_str()), (600 * MIB, "moe.py"));
    assert_eq!(
        (&finding.evidence["steps_overloaded"], &finding.evidence["ranks_overloaded"]),
        (&4.into(), &4.into())
    );
}

#[test]
fn a_small_overload_or_one_that_stays_is_none_of_turns() {
    assert!(find(&routed(|_| 2, 400 * MIB)).is_empty(), "always the same rank");
    assert!(find(&routed(|step| step, 10 * MIB)).is_empty(), "15 MiB");
    assert!(find(&routed(|step| if step < 2 { step } else { 9 }, 400 * MIB)).is_empty(), "half of the steps");
    assert!(find(&routed(|step| step, 400 * MIB)[..2]).is_empty(), "two ranks");
}
