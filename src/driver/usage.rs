//! How much was held, when, and by whom.
//!
//! Owns sums over takings: totals of a device, and figures of whatever groups the caller makes (holders, lines, kinds).
//! Bytes of managed and imported memory are not in a device's total: see [`super::Memory::is_of_the_device`].

use std::collections::BTreeMap;

use crate::model::{DeviceId, DriverRow};

use super::takings::{Ending, Taking};

/// Figures of a group of takings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Held when the device's total peaks.
    pub at_peak_bytes: u64,
    /// The most held at one time.
    pub own_peak_bytes: u64,
    /// Held after the last call.
    pub end_bytes: u64,
    /// Taken in all.
    pub total_bytes: u64,
    /// How often.
    pub taken: u64,
    /// Not given back.
    pub kept: u64,
}

/// Where a device's total peaks, and what is left at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverUsage {
    /// The most held at one time.
    pub peak_bytes: u64,
    /// How many calls were made until then; 0: nothing was ever held.
    pub peak_calls: u32,
    /// Held after the last call.
    pub end_bytes: u64,
}

/// A change of what is held: at which call, and which taking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    row: u32,
    /// What ends does so before what begins with the same call.
    begins: bool,
    taking: u32,
}

/// The takings of a list, as changes in the order of calls.
fn changes(takings: &[Taking], is_wanted: impl Fn(&Taking) -> bool) -> Vec<Change> {
    let mut changes = Vec::new();
    for (number, taking) in takings.iter().enumerate().filter(|(_, taking)| is_wanted(taking)) {
        let taking_number = number as u32;
        changes.push(Change { row: taking.row, begins: true, taking: taking_number });
        if taking.ending != Ending::Kept {
            changes.push(Change { row: taking.until, begins: false, taking: taking_number });
        }
    }
    changes.sort_unstable();
    changes
}

/// Whether `taking` counts in the total of `device`.
#[must_use]
pub fn counts_on(taking: &Taking, device: DeviceId) -> bool {
    taking.device == device && taking.memory.is_of_the_device()
}

impl DriverUsage {
    /// Of what counts on `device`.
    #[must_use]
    pub fn of(takings: &[Taking], device: DeviceId) -> Self {
        let mut usage = Self::default();
        let mut held = 0u64;
        for change in changes(takings, |taking| counts_on(taking, device)) {
            let bytes = takings[change.taking as usize].bytes;
            held = if change.begins { held.saturating_add(bytes) } else { held.saturating_sub(bytes) };
            if held > usage.peak_bytes {
                (usage.peak_bytes, usage.peak_calls) = (held, change.row + 1);
            }
        }
        usage.end_bytes = held;
        usage
    }
}

/// Figures of the takings for which `group` names one, by group. `peak_calls`: at which moment
/// [`Figures::at_peak_bytes`] is asked, as a number of calls.
pub fn figures<G: Ord + Copy>(
    takings: &[Taking],
    peak_calls: u32,
    mut group: impl FnMut(&Taking) -> Option<G>,
) -> BTreeMap<G, Figures> {
    let groups: Vec<Option<G>> = takings.iter().map(&mut group).collect();
    let mut all: BTreeMap<G, Figures> = BTreeMap::new();
    for change in changes(takings, |_| true) {
        let (taking, Some(group)) = (&takings[change.taking as usize], groups[change.taking as usize]) else {
            continue;
        };
        let figures = all.entry(group).or_default();
        if !change.begins {
            figures.end_bytes = figures.end_bytes.saturating_sub(taking.bytes);
            continue;
        }
        figures.end_bytes = figures.end_bytes.saturating_add(taking.bytes);
        figures.own_peak_bytes = figures.own_peak_bytes.max(figures.end_bytes);
        figures.total_bytes = figures.total_bytes.saturating_add(taking.bytes);
        figures.taken += 1;
        figures.kept += u64::from(taking.ending == Ending::Kept);
        if taking.is_held_after(peak_calls) {
            figures.at_peak_bytes = figures.at_peak_bytes.saturating_add(taking.bytes);
        }
    }
    all
}

/// What groups held at chosen moments of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Calls made until each moment, ascending.
    pub calls: Vec<u32>,
    /// Time of each moment, Unix microseconds; never before the one before it.
    pub times_us: Vec<i64>,
    /// All that counts on the device.
    pub total: Vec<u64>,
    /// By group.
    pub bands: Vec<Vec<u64>>,
}

impl Curve {
    /// The course on `device` at no more than about four moments in each of `columns` stretches of calls: the first, the
    /// last, the lowest and the highest of each. `band` puts every taking, by its index, into one of `bands` groups.
    #[must_use]
    pub fn of(
        rows: &[DriverRow],
        takings: &[Taking],
        device: DeviceId,
        bands: usize,
        columns: usize,
        band: impl Fn(usize) -> usize,
    ) -> Self {
        let changes = changes(takings, |taking| counts_on(taking, device));
        let times = rising_times(rows);
        let kept = chosen(&changes, takings, rows.len(), columns);
        let mut curve = Self { bands: vec![Vec::new(); bands], ..Self::default() };
        let (mut held, mut next) = (vec![0u64; bands], kept.iter().copied().peekable());
        for (number, change) in changes.iter().enumerate() {
            let taking = &takings[change.taking as usize];
            let Some(sum) = held.get_mut(band(change.taking as usize)) else { continue };
            *sum = if change.begins {
                sum.saturating_add(taking.bytes)
            } else {
                sum.saturating_sub(taking.bytes)
            };
            if next.next_if_eq(&number).is_some() {
                curve.push(change.row, &times, &held);
            }
        }
        curve
    }

    fn push(&mut self, row: u32, times: &[i64], held: &[u64]) {
        self.calls.push(row + 1);
        self.times_us.push(times.get(row as usize).copied().unwrap_or(0));
        self.total.push(held.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes)));
        for (band, &bytes) in self.bands.iter_mut().zip(held) {
            band.push(bytes);
        }
    }
}

/// Numbers of the changes that a curve of so many columns needs, ascending.
fn chosen(changes: &[Change], takings: &[Taking], rows: usize, columns: usize) -> Vec<usize> {
    let width = (rows / columns.max(1) + 1) as u32;
    let mut kept = Vec::new();
    let mut held = 0u64;
    // Of the current column: first, last, lowest, highest.
    let mut column: Option<(u32, [(u64, usize); 4])> = None;
    for (number, change) in changes.iter().enumerate() {
        let bytes = takings[change.taking as usize].bytes;
        held = if change.begins { held.saturating_add(bytes) } else { held.saturating_sub(bytes) };
        let (place, here) = (change.row / width, (held, number));
        match &mut column {
            Some((at, [_, last, lowest, highest])) if *at == place => {
                *last = here;
                *lowest = (*lowest).min(here);
                if here.0 > highest.0 {
                    *highest = here;
                }
            }
            _ => {
                close(&mut kept, column.take());
                column = Some((place, [here; 4]));
            }
        }
    }
    close(&mut kept, column);
    kept
}

fn close(kept: &mut Vec<usize>, column: Option<(u32, [(u64, usize); 4])>) {
    let Some((_, samples)) = column else { return };
    let mut numbers = samples.map(|(_, number)| number);
    numbers.sort_unstable();
    for number in numbers {
        if kept.last() != Some(&number) {
            kept.push(number);
        }
    }
}

/// Times of calls that never run backwards: threads take their time and their number at slightly different moments.
fn rising_times(rows: &[DriverRow]) -> Vec<i64> {
    let mut latest = i64::MIN;
    let rise = |row: &DriverRow| {
        latest = latest.max(row.time_us);
        latest
    };
    rows.iter().map(rise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::samples::{Calls, recorded};
    use crate::driver::{Memory, Takings};
    use crate::model::DriverCall;

    fn rows() -> Vec<DriverRow> {
        Calls::default()
            .at(0x1000)
            .take(DriverCall::DeviceAlloc, 100)
            .at(0x2000)
            .take(DriverCall::PoolAlloc, 50)
            .at(0x1000)
            .give(DriverCall::DeviceFree)
            .at(0x3000)
            .take(DriverCall::ManagedAlloc, 7)
            .at(0x1000)
            .take(DriverCall::DeviceAlloc, 30)
            .at(0x4000)
            .device(1)
            .take(DriverCall::DeviceAlloc, 900)
            .rows
    }

    #[test]
    fn totals_are_of_one_device_and_of_what_is_certainly_there() {
        let takings = Takings::of(&rows()).all;
        let usage = DriverUsage::of(&takings, DeviceId(0));
        assert_eq!(usage, DriverUsage { peak_bytes: 150, peak_calls: 2, end_bytes: 80 });
        let other = DriverUsage::of(&takings, DeviceId(1));
        assert_eq!(other, DriverUsage { peak_bytes: 900, peak_calls: 6, end_bytes: 900 });
    }

    #[test]
    fn figures_of_groups_add_up_to_the_total() {
        let takings = Takings::of(&rows()).all;
        let usage = DriverUsage::of(&takings, DeviceId(0));
        let on_device = |taking: &Taking| counts_on(taking, DeviceId(0)).then_some(taking.memory);
        let found = figures(&takings, usage.peak_calls, on_device);
        let device = found[&Memory::Device];
        let expected = Figures {
            at_peak_bytes: 100,
            own_peak_bytes: 100,
            end_bytes: 30,
            total_bytes: 130,
            taken: 2,
            kept: 1,
        };
        assert_eq!(device, expected);
        assert_eq!(found.values().map(|figures| figures.at_peak_bytes).sum::<u64>(), usage.peak_bytes);
        assert_eq!(found.values().map(|figures| figures.end_bytes).sum::<u64>(), usage.end_bytes);
    }

    #[test]
    fn a_curve_keeps_peak_and_end_at_any_width() {
        let layer = recorded("torch").driver.unwrap();
        let takings = Takings::of(&layer.rows).all;
        let usage = DriverUsage::of(&takings, DeviceId(0));
        for columns in [1, 7, 800] {
            let curve = Curve::of(&layer.rows, &takings, DeviceId(0), 2, columns, |index| {
                usize::from(takings[index].bytes > 1 << 20)
            });
            assert_eq!(curve.total.iter().max(), Some(&usage.peak_bytes), "{columns}");
            assert_eq!(curve.total.last(), Some(&usage.end_bytes), "{columns}");
            assert!(
                curve.total.len() <= 4 * columns && curve.calls.is_sorted() && curve.times_us.is_sorted()
            );
            let sums = curve.bands[0].iter().zip(&curve.bands[1]).map(|(a, b)| a + b);
            assert!(sums.eq(curve.total.iter().copied()));
        }
    }
}
