//! Who ran out of memory first.
//!
//! Owns the order of failures and how well it is known: by Unix time where every failure has one, else by the steps
//! that were over, else not at all. Event numbers of different processes are never compared.

use crate::report::{FailedRank, RankFailure, RankRow, rank_name};
use crate::units::{Count, duration_us};

/// Clocks of different machines agree no better than this, in microseconds.
const CLOCKS_AGREE_US: u64 = 10_000;

/// What rows of files say that are not compared: how many failed.
pub(super) fn apart(rows: &[RankRow]) -> RankFailure {
    let ranks = failed(rows);
    let sentence = match ranks.len() as u64 {
        0 => "No file ran out of memory".to_owned(),
        count => format!("{} of {} files ran out of memory", Count(count), Count(rows.len() as u64)),
    };
    let known_by = if ranks.is_empty() { "none" } else { "unknown" };
    RankFailure { known_by, first: None, sentence, ranks }
}

/// What the rows of a job say about it.
pub(super) fn failure(rows: &[RankRow]) -> RankFailure {
    let mut failed = failed(rows);
    let (known_by, is_known) = order(&mut failed);
    let first = failed.first().filter(|_| is_known).cloned();
    let sentence = sentence(known_by, &failed, rows.len());
    RankFailure { known_by, first, sentence, ranks: failed }
}

/// Rows with a failed request, in their order.
fn failed(rows: &[RankRow]) -> Vec<FailedRank> {
    rows.iter()
        .filter_map(|row| {
            let oom = row.oom.clone()?;
            Some(FailedRank { rank: row.rank, path: row.path.clone(), after_first_us: None, oom })
        })
        .collect()
}

/// Puts failures in order; how, and whether the first is the first.
fn order(failed: &mut [FailedRank]) -> (&'static str, bool) {
    match failed {
        [] => return ("none", false),
        [_] => return ("only", true),
        _ => {}
    }
    if let Some(times) = failed.iter().map(|rank| rank.oom.time_us).collect::<Option<Vec<i64>>>() {
        let earliest = times.iter().copied().min().unwrap_or(0);
        for (rank, time) in failed.iter_mut().zip(times) {
            rank.after_first_us = Some(time.abs_diff(earliest));
        }
        failed.sort_by_key(|rank| rank.after_first_us);
        return ("time", failed[1].after_first_us > Some(0));
    }
    if failed.iter().all(|rank| rank.oom.step.is_some()) {
        failed.sort_by_key(|rank| rank.oom.step);
        if failed[0].oom.step < failed[1].oom.step {
            return ("step", true);
        }
    }
    ("unknown", false)
}

fn sentence(known_by: &str, failed: &[FailedRank], ranks: usize) -> String {
    let name = |rank: &FailedRank| capital(&rank_name(rank.rank, &rank.path));
    let of = |count: usize| format!("{} of {} ranks", Count(count as u64), Count(ranks as u64));
    let Some(first) = failed.first() else { return "No rank ran out of memory".to_owned() };
    let place = first.oom.line.as_ref().map(|line| format!(" at {line}")).unwrap_or_default();
    let verdict = &first.oom.verdict;
    match (known_by, failed.get(1)) {
        ("only", _) => format!("{} alone ran out of memory{place}: {verdict}", name(first)),
        ("time", Some(next)) => {
            let gap = next.after_first_us.unwrap_or(0);
            let who = rank_name(next.rank, &next.path);
            if gap == 0 {
                return format!("{} ran out of memory, the first two at the same time", of(failed.len()));
            }
            let doubt = if gap < CLOCKS_AGREE_US { ", less than clocks of two machines agree" } else { "" };
            format!(
                "{} ran out of memory first{place}: {verdict}; {who} followed {} later{doubt}",
                name(first),
                duration_us(gap)
            )
        }
        ("step", Some(next)) => format!(
            "{} ran out of memory first{place}: {verdict}; in step {}, {} in step {} (no times recorded)",
            name(first),
            Count(first.oom.step.unwrap_or(0)),
            rank_name(next.rank, &next.path),
            Count(next.oom.step.unwrap_or(0))
        ),
        _ => format!(
            "{} ran out of memory; which first cannot be known: not all have times, and steps do not tell",
            of(failed.len())
        ),
    }
}

fn capital(text: &str) -> String {
    match text.strip_prefix("rank ") {
        Some(number) => format!("Rank {number}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::report::RankOom;

    fn row(rank: u64, oom: Option<(Option<i64>, Option<u64>)>) -> RankRow {
        let oom = oom.map(|(time_us, step)| RankOom {
            time_us,
            step,
            verdict: "capacity".to_owned(),
            line: Some("train.py:3 f".to_owned()),
            ..RankOom::default()
        });
        RankRow { rank: Some(rank), oom, ..RankRow::default() }
    }

    fn told(rows: &[RankRow]) -> (&'static str, Option<u64>, String) {
        let found = failure(rows);
        (found.known_by, found.first.and_then(|first| first.rank), found.sentence)
    }

    #[test]
    fn times_decide_before_steps() {
        let rows = [
            row(0, Some((Some(5_000_000), Some(1)))),
            row(1, None),
            row(2, Some((Some(2_500_000), Some(9)))),
        ];
        let (by, first, sentence) = told(&rows);
        assert_eq!((by, first), ("time", Some(2)));
        assert_eq!(
            sentence,
            "Rank 2 ran out of memory first at train.py:3 f: capacity; rank 0 followed 2.500 s later"
        );
        assert_eq!(failure(&rows).ranks[1].after_first_us, Some(2_500_000));
        let close = told(&[row(0, Some((Some(7), None))), row(1, Some((Some(9), None)))]);
        assert!(close.1 == Some(0) && close.2.contains("less than clocks"), "{close:?}");
    }

    #[test]
    fn without_times_steps_decide_and_without_steps_nothing_does() {
        let (by, first, sentence) = told(&[row(0, Some((Some(1), Some(4)))), row(1, Some((None, Some(2))))]);
        assert_eq!((by, first), ("step", Some(1)), "{sentence}");
        for rows in [
            [row(0, Some((None, Some(2)))), row(1, Some((None, Some(2))))],
            [row(0, Some((Some(1), None))), row(1, Some((None, Some(2))))],
        ] {
            let (by, first, sentence) = told(&rows);
            assert_eq!((by, first), ("unknown", None));
            assert!(
                sentence.starts_with("2 of 2 ranks") && sentence.contains("cannot be known"),
                "{sentence}"
            );
        }
        let same = told(&[row(0, Some((Some(7), None))), row(1, Some((Some(7), None)))]);
        assert_eq!((same.0, same.1), ("time", None));
    }

    #[test]
    fn one_failure_is_the_first_and_none_is_said() {
        assert_eq!(told(&[row(0, None), row(1, Some((None, None)))]).1, Some(1));
        assert_eq!(told(&[row(0, None)]), ("none", None, "No rank ran out of memory".to_owned()));
    }
}
