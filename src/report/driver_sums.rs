//! What nvidia-smi sees as a table: a row for each part, a column for each moment.
//!
//! Owns rows and their order, for every output that has tables. Cells are figures; who prints them says how a missing
//! one looks. Names of holders are raw text.

use super::driver::{DriverDeviceRow, DriverSumRow};
use super::driver_words::{MOMENTS, sum_at};
use crate::units::Count;

/// Holders with rows of their own; the others share one.
const MOST_HOLDERS: usize = 12;

/// The table of one device.
pub(super) struct SumTable {
    /// Moments that have a column, as [`MOMENTS`] names them.
    pub(super) moments: Vec<&'static str>,
    pub(super) rows: Vec<SumRow>,
}

/// One part: its name, and its bytes at each moment.
pub(super) struct SumRow {
    pub(super) part: Part,
    /// `None` where the driver does not say it.
    pub(super) cells: Vec<Option<i64>>,
}

/// What a row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All that is in use: the sum of the others.
    InUse,
    Holder(String),
    OtherHolders(u64),
    Context,
    Loaded,
    OtherProcesses,
    Unknown,
    /// What the driver says of this process; no part of the sum.
    Process,
}

impl Part {
    /// Words for all but holders, whose names are the trace's.
    pub(super) fn words(&self) -> Option<String> {
        Some(match self {
            Self::InUse => "in use (nvidia-smi)".to_owned(),
            Self::Holder(_) => return None,
            Self::OtherHolders(count) => format!("{} more holders", Count(*count)),
            Self::Context => "context, as at the first reading".to_owned(),
            Self::Loaded => "loaded since: code of kernels, caches of pools".to_owned(),
            Self::OtherProcesses => "others: other processes, and the driver".to_owned(),
            Self::Unknown => "unknown".to_owned(),
            Self::Process => "this process, as the driver says".to_owned(),
        })
    }
}

impl SumTable {
    /// The table of `device`; `None` where the driver was never asked.
    pub(super) fn of(device: &DriverDeviceRow) -> Option<Self> {
        let told = |at: &&'static str| Some((*at, sum_at(device, at)?));
        let (moments, sums): (Vec<_>, Vec<_>) = MOMENTS.iter().filter_map(told).unzip();
        if sums.is_empty() {
            return None;
        }
        let row = |part, bytes: &dyn Fn(&DriverSumRow) -> Option<i64>| SumRow {
            part,
            cells: sums.iter().map(|sum| bytes(sum)).collect(),
        };
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut rows = vec![row(Part::InUse, &|sum| Some(signed(sum.used_bytes)))];
        rows.extend(holder_rows(&sums));
        rows.push(row(Part::Context, &|sum| sum.context_bytes.map(signed)));
        rows.push(row(Part::Loaded, &|sum| sum.loaded_bytes.map(signed)));
        rows.push(row(Part::OtherProcesses, &|sum| sum.others_bytes.map(signed)));
        rows.push(row(Part::Unknown, &|sum| Some(sum.unknown_bytes)));
        if sums.iter().any(|sum| sum.process_bytes.is_some()) {
            rows.push(row(Part::Process, &|sum| sum.process_bytes.map(signed)));
        }
        Some(Self { moments, rows })
    }
}

/// Holders in the order of the most that each holds at any of the moments.
fn holder_rows(sums: &[&DriverSumRow]) -> Vec<SumRow> {
    let mut most = std::collections::BTreeMap::<&str, (u64, Vec<u64>)>::new();
    for (column, sum) in sums.iter().enumerate() {
        for part in &sum.parts {
            let (highest, cells) = most.entry(&part.holder).or_insert_with(|| (0, vec![0; sums.len()]));
            cells[column] = cells[column].saturating_add(part.bytes);
            *highest = cells[column].max(*highest);
        }
    }
    let mut holders: Vec<_> =
        most.into_iter().map(|(name, (highest, cells))| (highest, name, cells)).collect();
    holders.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let rest = holders.split_off(holders.len().min(MOST_HOLDERS));
    let signed = |cells: Vec<u64>| cells.iter().map(|&bytes| i64::try_from(bytes).ok()).collect();
    let row = |(_, name, cells): (u64, &str, Vec<u64>)| SumRow {
        part: Part::Holder(name.to_owned()),
        cells: signed(cells),
    };
    let count = rest.len() as u64;
    let mut rows: Vec<SumRow> = holders.into_iter().map(row).collect();
    if count > 0 {
        let mut total = vec![0u64; sums.len()];
        for (_, _, cells) in &rest {
            total.iter_mut().zip(cells).for_each(|(sum, &bytes)| *sum = sum.saturating_add(bytes));
        }
        rows.push(SumRow { part: Part::OtherHolders(count), cells: signed(total) });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::driver_fixture;

    fn device() -> DriverDeviceRow {
        driver_fixture::full().traces.remove(0).driver.unwrap().devices.remove(0)
    }

    #[test]
    fn every_column_adds_up_to_what_is_in_use() {
        for device in [device(), many()] {
            let table = SumTable::of(&device).unwrap();
            assert_eq!(table.moments, MOMENTS);
            for column in 0..table.moments.len() {
                let bytes = |row: &SumRow| row.cells[column].unwrap();
                let parts = table.rows.iter().filter(|row| row.part != Part::Process).skip(1);
                assert_eq!(parts.map(bytes).sum::<i64>(), bytes(&table.rows[0]), "column {column}");
            }
        }
    }

    /// More holders than have rows, each of some bytes at every moment.
    fn many() -> DriverDeviceRow {
        let mut device = device();
        for sum in &mut device.sums {
            sum.unknown_bytes += sum.parts.iter().map(|part| part.bytes as i64).sum::<i64>();
            sum.parts.clear();
            for n in 0..20 {
                sum.parts.push(crate::report::DriverPartRow { holder: format!("h{n}"), bytes: n });
                sum.unknown_bytes -= n as i64;
            }
        }
        device
    }

    #[test]
    fn the_largest_holders_come_first_and_the_rest_is_counted() {
        let table = SumTable::of(&many()).unwrap();
        assert_eq!(table.rows[1].part, Part::Holder("h19".to_owned()));
        let rest = table.rows.iter().find(|row| row.part == Part::OtherHolders(8)).unwrap();
        assert_eq!(rest.cells, vec![Some((0..8).sum::<i64>()); 4]);
    }

    #[test]
    fn what_the_driver_does_not_say_is_missing_and_without_readings_there_is_no_table() {
        let mut device = device();
        for sum in &mut device.sums {
            (sum.process_bytes, sum.context_bytes, sum.others_bytes) = (None, None, None);
            sum.loaded_bytes = None;
        }
        let table = SumTable::of(&device).unwrap();
        let cells =
            |part: &Part| table.rows.iter().find(|row| row.part == *part).map(|row| row.cells.clone());
        assert_eq!(cells(&Part::Context), Some(vec![None; 4]));
        assert_eq!(cells(&Part::Process), None);
        device.sums.clear();
        assert!(SumTable::of(&device).is_none());
    }
}
