//! The table of `torch.cuda.memory_summary()` as text.
//!
//! Owns rows, order and layout; the counters arrive under the names of `torch.cuda.memory_stats()`. A
//! counter that is not there stays `-`: it is unknown, not zero.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escape::{keep_start, terminal};
use crate::units::{Bytes, Count};

/// The table of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryTable {
    /// Index.
    pub device: u32,
    /// Failed requests, where known.
    pub ooms: Option<u64>,
    /// Flushes of the cache to make room for a request, where known.
    pub retries: Option<u64>,
    /// One group per metric.
    pub groups: Vec<SummaryGroup>,
}

/// A metric with a row for all pools, and one per pool where it is counted by pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryGroup {
    /// All pools first.
    pub rows: Vec<SummaryRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// Metric or pool.
    pub name: String,
    /// Whether the cells are bytes, not counts.
    pub bytes: bool,
    /// In use, the most in use, allocated in all, freed in all.
    pub cells: [Option<u64>; 4],
}

/// Names in the order of PyTorch: title, key, whether bytes, whether by pool.
const METRICS: [(&str, &str, bool, bool); 11] = [
    ("Allocated memory", "allocated_bytes", true, true),
    ("Active memory", "active_bytes", true, true),
    ("Requested memory", "requested_bytes", true, true),
    ("GPU reserved memory", "reserved_bytes", true, true),
    ("Non-releasable memory", "inactive_split_bytes", true, true),
    ("Allocations", "allocation", false, true),
    ("Active allocs", "active", false, true),
    ("GPU reserved segments", "segment", false, true),
    ("Non-releasable allocs", "inactive_split", false, true),
    ("Oversize allocations", "oversize_allocations", false, false),
    ("Oversize GPU segments", "oversize_segments", false, false),
];
const POOLS: [(&str, &str); 2] = [("from large pool", "large_pool"), ("from small pool", "small_pool")];
const STATISTICS: [&str; 4] = ["current", "peak", "allocated", "freed"];
const NAME_WIDTH: usize = 23;
const CELL_WIDTH: usize = 12;
const WIDTH: usize = NAME_WIDTH + 4 * (CELL_WIDTH + 1);

impl SummaryTable {
    /// Picks the rows out of `stats`, whose keys are those of `memory_stats()`.
    #[must_use]
    pub fn from_stats(device: u32, stats: &BTreeMap<String, u64>) -> Self {
        let get = |key: &str| stats.get(key).copied();
        let groups = METRICS.iter().map(|metric| group(metric, stats)).collect();
        Self { device, ooms: get("num_ooms"), retries: get("num_alloc_retries"), groups }
    }

    /// The table as text, in PyTorch's layout, sizes in IEC units.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        rule(&mut text, '=');
        line(&mut text, &format!("{:^WIDTH$}", format!("CUDA memory summary, device ID {}", self.device)));
        rule(&mut text, '-');
        let half = WIDTH / 2;
        let ooms = format!("CUDA OOMs: {}", count(self.ooms));
        let retries = format!("cudaMalloc retries: {}", count(self.retries));
        line(&mut text, &format!("{ooms:^half$}|{retries:^rest$}", rest = WIDTH - half - 1));
        rule(&mut text, '=');
        let head = ["Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"].map(str::to_owned);
        line(&mut text, &columns(&format!("{:^NAME_WIDTH$}", "Metric"), &head));
        for group in &self.groups {
            rule(&mut text, '-');
            for row in &group.rows {
                line(&mut text, &columns(&format!(" {}", terminal(&row.name)), &row.shown()));
            }
        }
        rule(&mut text, '=');
        text
    }
}

impl SummaryRow {
    fn shown(&self) -> [String; 4] {
        self.cells.map(|cell| match cell {
            Some(bytes) if self.bytes => Bytes(bytes).to_string(),
            other => count(other),
        })
    }
}

fn group(
    &(title, key, bytes, by_pool): &(&str, &str, bool, bool),
    stats: &BTreeMap<String, u64>,
) -> SummaryGroup {
    let cells = |pool: &str| {
        STATISTICS.map(|statistic| {
            let name = if pool.is_empty() {
                format!("{key}.{statistic}")
            } else {
                format!("{key}.{pool}.{statistic}")
            };
            stats.get(&name).copied()
        })
    };
    let all = if by_pool { "all" } else { "" };
    let mut rows = vec![SummaryRow { name: title.to_owned(), bytes, cells: cells(all) }];
    if by_pool {
        rows.extend(POOLS.iter().map(|(name, pool)| SummaryRow {
            name: format!("{name:>21}"),
            bytes,
            cells: cells(pool),
        }));
    }
    SummaryGroup { rows }
}

/// The table of `memory_summary()` for `device`, from the counters of `memory_stats()`.
#[must_use]
pub fn summary_table(device: u32, stats: &BTreeMap<String, u64>) -> String {
    SummaryTable::from_stats(device, stats).text()
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| Count(value).to_string())
}

fn columns(name: &str, cells: &[String; 4]) -> String {
    let mut text = format!("{:<NAME_WIDTH$}", keep_start(name, NAME_WIDTH));
    for cell in cells {
        write!(text, "|{:>width$} ", cell, width = CELL_WIDTH - 1)
            .expect("writing to a string does not fail");
    }
    text
}

fn line(text: &mut String, content: &str) {
    text.extend(["|", content, "|\n"]);
}

fn rule(text: &mut String, stroke: char) {
    line(text, &stroke.to_string().repeat(WIDTH));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value)).collect()
    }

    #[test]
    fn the_table_is_as_agreed() {
        let stats = stats(&[
            ("allocated_bytes.all.current", 70_682_624),
            ("allocated_bytes.all.peak", 185_862_144),
            ("allocated_bytes.all.allocated", 1_025_211_392),
            ("allocated_bytes.all.freed", 954_528_768),
            ("allocated_bytes.large_pool.peak", 182_289_408),
            ("allocated_bytes.small_pool.peak", 4_211_712),
            ("reserved_bytes.all.current", 287_309_824),
            ("allocation.all.allocated", 1_234_567),
            ("oversize_allocations.current", 3),
            ("num_ooms", 1),
        ]);
        insta::assert_snapshot!("summary", summary_table(0, &stats));
    }

    #[test]
    fn every_line_is_as_wide_as_the_others() {
        let huge: BTreeMap<String, u64> = METRICS
            .iter()
            .flat_map(|(_, key, ..)| {
                STATISTICS.map(|statistic| (format!("{key}.all.{statistic}"), 99_999_999))
            })
            .collect();
        let table = summary_table(u32::MAX, &huge);
        assert!(table.lines().all(|line| line.chars().count() == WIDTH + 2), "{table}");
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_what_is_zero_a_zero() {
        let table = SummaryTable::from_stats(0, &stats(&[("num_ooms", 0)]));
        assert!(table.text().contains("CUDA OOMs: 0") && table.text().contains("cudaMalloc retries: -"));
        assert_eq!(table.groups[0].rows[0].cells, [None; 4]);
    }
}
