//! A job of many ranks for tests of the renderers: one leaks, one runs out of memory.

use super::types::{
    FailedRank, RankCurve, RankFailure, RankLine, RankOom, RankOutlier, RankRow, RankSteps, RanksReport,
    SeverityCounts, StepAcross,
};
use crate::report::types::Four;

pub(crate) const MIB: u64 = 1 << 20;

fn four(mib: u64) -> Four<u64> {
    Four {
        requested_bytes: (mib - 1) * MIB,
        allocated_bytes: mib * MIB,
        active_bytes: mib * MIB,
        reserved_bytes: (mib + 20) * MIB,
    }
}

fn row(rank: u64, mib: u64) -> RankRow {
    RankRow {
        rank: Some(rank),
        path: format!("job/rank{rank}.pickle"),
        events: 1_000,
        complete: true,
        from_the_start: true,
        peak: four(mib),
        end: four(10),
        unused_at_peak_bytes: 20 * MIB,
        steps: RankSteps {
            source: "detected".to_owned(),
            count: 3,
            peak_median_bytes: Some(mib * MIB),
            peak_max_bytes: Some(mib * MIB),
        },
        findings: SeverityCounts { error: 0, warning: 1, info: 2 },
        curve: RankCurve {
            is_time: true,
            start_us: Some(1_700_000_000_000_000 + rank as i64 * 1_000),
            end: 2_000_000,
            x: vec![0, 500_000, 1_500_000, 2_000_000],
            allocated: vec![0, mib * MIB / 2, mib * MIB, 10 * MIB],
            reserved: vec![0, mib * MIB, (mib + 20) * MIB, (mib + 20) * MIB],
        },
        ..RankRow::default()
    }
}

/// `count` ranks, of which 3 has twice as much and 5 fails.
pub(crate) fn job(count: u64) -> RanksReport {
    let mut rows: Vec<RankRow> = (0..count).map(|rank| row(rank, 100 + rank % 3)).collect();
    rows[3] = row(3, 220);
    let oom = RankOom {
        count: 1,
        event: 700,
        requested_bytes: 64 * MIB,
        verdict: "capacity".to_owned(),
        line: Some("train.py:9 step".to_owned()),
        time_us: Some(1_700_000_001_000_000),
        step: Some(2),
    };
    rows[5].oom = Some(oom.clone());
    let failed = FailedRank { rank: Some(5), path: rows[5].path.clone(), after_first_us: None, oom };
    RanksReport {
        ranks: count,
        is_one_job: true,
        events: count * 1_000,
        median_peak: four(101),
        failure: RankFailure {
            known_by: "only",
            first: Some(failed.clone()),
            sentence: "Rank 5 alone ran out of memory at train.py:9 step: capacity".to_owned(),
            ranks: vec![failed],
        },
        outliers: vec![RankOutlier {
            rank: Some(3),
            path: rows[3].path.clone(),
            counter: "allocated",
            bytes: 220 * MIB,
            median_bytes: 101 * MIB,
            median_deviation_bytes: MIB,
            difference_bytes: 119 << 20,
            lines: vec![RankLine {
                file: "leak.py".to_owned(),
                line: 7,
                function: "keep".to_owned(),
                bytes: 119 * MIB,
                median_bytes: 0,
                difference_bytes: 119 << 20,
            }],
            ..RankOutlier::default()
        }],
        steps: vec![StepAcross {
            step: 0,
            ranks: count,
            min_bytes: 90 * MIB,
            median_bytes: 101 * MIB,
            max_bytes: 220 * MIB,
            max_rank: Some(3),
        }],
        rows,
        ..RanksReport::default()
    }
}

/// Names that would be markup, and figures that cannot be.
pub(crate) fn hostile() -> RanksReport {
    const NAME: &str = "<b>bold</b><script>x</script>`|\u{202e}\u{1b}[31m.pickle";
    let mut report = job(9);
    for row in &mut report.rows {
        row.rank = None;
        row.path = format!("{}{NAME}", row.path);
    }
    report.is_one_job = false;
    report.notes.push(NAME.to_owned());
    report.failure.sentence = NAME.to_owned();
    report.outliers[0].lines[0].file = NAME.to_owned();
    report.outliers[0].path = NAME.to_owned();
    report.outliers[0].rank = None;
    report.outliers[0].difference_bytes = i64::MIN;
    report.rows[2].peak.allocated_bytes = u64::MAX;
    report.rows[2].curve.reserved = vec![u64::MAX; 9];
    report.rows[4].curve.end = u64::MAX;
    report.rows[4].curve.start_us = Some(i64::MIN);
    report
}
