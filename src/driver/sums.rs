//! What the device says is in use, as a sum of known parts.
//!
//! Owns the sum: what calls hold, what the driver took for the process by itself (contexts, measured at the first reading;
//! and what came to it since, where the driver names the process), what others hold, and what is left, which is said and
//! never spread over the parts.

use crate::model::{DeviceId, DriverRow, Sample};

use super::takings::Taking;
use super::usage::counts_on;

/// The device's own figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Unix microseconds.
    pub time_us: i64,
    /// Calls with an order up to this one came before; `None`: those up to its time did.
    pub order: Option<u64>,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that the driver says this process holds.
    pub process_bytes: Option<u64>,
}

impl Reading {
    /// What `sample` says of `device`.
    #[must_use]
    pub fn of(sample: &Sample, device: DeviceId) -> Option<Self> {
        let used_bytes = sample.total_bytes?.checked_sub(sample.free_bytes?)?;
        let (time_us, order, process_bytes) = (sample.time_us, sample.driver_calls, sample.process_bytes);
        (sample.device == device).then_some(Self { time_us, order, used_bytes, process_bytes })
    }

    /// How many of `rows` came before it.
    #[must_use]
    pub fn calls(&self, rows: &[DriverRow]) -> u32 {
        let before = match self.order {
            Some(order) => rows.partition_point(|row| row.order <= order),
            // Times of calls are nearly in their order; a microsecond more or less is as good as can be.
            None => rows.partition_point(|row| row.time_us <= self.time_us),
        };
        before as u32
    }
}

/// Why a moment is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumMoment {
    /// The first reading.
    First,
    /// The most in use.
    Peak,
    /// A request of the allocator's failed.
    Oom,
    /// The last reading.
    End,
}

impl SumMoment {
    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Peak => "peak",
            Self::Oom => "oom",
            Self::End => "end",
        }
    }
}

/// A sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Why this moment.
    pub moment: SumMoment,
    /// The device's figures.
    pub reading: Reading,
    /// Calls made until then: for those who ask what was held.
    pub calls: u32,
    /// What calls held.
    pub held_bytes: u64,
    /// What the driver took for the process by itself until the first reading: contexts. `None`: no reading says it.
    pub context_bytes: Option<u64>,
    /// What it took by itself since: code of kernels when they are first used, their local memory, pools' caches. `None`: the
    /// driver does not name the process, and then it is part of [`Sum::unknown_bytes`].
    pub loaded_bytes: Option<u64>,
    /// What others hold; `None`: not known, and then part of [`Sum::context_bytes`].
    pub others_bytes: Option<u64>,
    /// What is left.
    pub unknown_bytes: i64,
}

/// Sums on `device` at its readings (by time), and at the failed requests `ooms`.
#[must_use]
pub fn sums(
    rows: &[DriverRow],
    takings: &[Taking],
    device: DeviceId,
    readings: &[Reading],
    ooms: &[Reading],
) -> Vec<Sum> {
    let held = Held { rows, takings, device };
    let context = Context::measured(&held, readings);
    let loaded = Loaded { readings, context: context.bytes.unwrap_or(0) };
    let mut found = Vec::new();
    let mut add = |moment: SumMoment, reading: Option<&Reading>| {
        found.extend(reading.map(|reading| context.sum(moment, reading, &held, &loaded)));
    };
    add(SumMoment::First, context.first.as_ref());
    add(SumMoment::Peak, readings.iter().rev().max_by_key(|reading| reading.used_bytes));
    add(SumMoment::Oom, ooms.last());
    add(SumMoment::End, readings.last());
    found
}

struct Held<'a> {
    rows: &'a [DriverRow],
    takings: &'a [Taking],
    device: DeviceId,
}

impl Held<'_> {
    fn at(&self, calls: u32) -> u64 {
        let held = self
            .takings
            .iter()
            .filter(|taking| taking.is_held_after(calls) && counts_on(taking, self.device));
        held.fold(0, |sum, taking| sum.saturating_add(taking.bytes))
    }
}

/// What the driver took by itself, at the first reading behind a call.
struct Context {
    first: Option<Reading>,
    bytes: Option<u64>,
    others: Option<u64>,
}

impl Context {
    fn measured(held: &Held<'_>, readings: &[Reading]) -> Self {
        let first = readings.iter().find(|reading| reading.calls(held.rows) > 0).copied();
        let Some(reading) = first else { return Self { first, bytes: None, others: None } };
        let own = reading.process_bytes.unwrap_or(reading.used_bytes);
        let bytes = Some(own.saturating_sub(held.at(reading.calls(held.rows))));
        let others = reading.process_bytes.map(|process| reading.used_bytes.saturating_sub(process));
        Self { first, bytes, others }
    }

    fn sum(&self, moment: SumMoment, reading: &Reading, held: &Held<'_>, loaded: &Loaded<'_>) -> Sum {
        let calls = reading.calls(held.rows);
        let held_bytes = held.at(calls);
        let others_bytes = match reading.process_bytes {
            Some(process) => Some(reading.used_bytes.saturating_sub(process)),
            // A failed request is no reading of the process: what others had at the first one must do.
            None => self.others,
        };
        let loaded_bytes = loaded.until(reading, held);
        let parts =
            [held_bytes, self.bytes.unwrap_or(0), loaded_bytes.unwrap_or(0), others_bytes.unwrap_or(0)];
        let known = parts.iter().fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
        let unknown = i128::from(reading.used_bytes) - i128::from(known);
        Sum {
            moment,
            reading: *reading,
            calls,
            held_bytes,
            context_bytes: self.bytes,
            loaded_bytes,
            others_bytes,
            unknown_bytes: i64::try_from(unknown).unwrap_or(if unknown < 0 { i64::MIN } else { i64::MAX }),
        }
    }
}

/// What came to the process beside its calls since the first reading.
struct Loaded<'a> {
    readings: &'a [Reading],
    context: u64,
}

impl Loaded<'_> {
    /// By the reading itself, or by the last one before it that names the process: a failed request does not.
    fn until(&self, reading: &Reading, held: &Held<'_>) -> Option<u64> {
        let is_before = |known: &&Reading| known.time_us <= reading.time_us && known.process_bytes.is_some();
        let by_itself = Some(reading).filter(|reading| reading.process_bytes.is_some());
        let known = by_itself.or_else(|| self.readings.iter().rev().find(is_before))?;
        let own = known.process_bytes?.saturating_sub(held.at(known.calls(held.rows)));
        Some(own.saturating_sub(self.context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Takings;
    use crate::driver::samples::Calls;
    use crate::model::DriverCall;

    const MIB: u64 = 1 << 20;

    fn reading(order: u64, used: u64, process: Option<u64>) -> Reading {
        Reading {
            time_us: order as i64,
            order: Some(order),
            used_bytes: used * MIB,
            process_bytes: process.map(|mib| mib * MIB),
        }
    }

    fn rows() -> Vec<DriverRow> {
        Calls::default()
            .handle(1)
            .give(DriverCall::ContextRetain)
            .at(0x1000)
            .take(DriverCall::DeviceAlloc, 1000 * MIB)
            .at(0x9000)
            .take(DriverCall::DeviceAlloc, 20 * MIB)
            .at(0x1000)
            .give(DriverCall::DeviceFree)
            .rows
    }

    #[test]
    fn what_is_in_use_is_calls_context_others_and_a_rest() {
        let rows = rows();
        let takings = Takings::of(&rows).all;
        let readings = [reading(1, 700, Some(500)), reading(3, 1740, Some(1540)), reading(4, 730, Some(520))];
        let found = sums(&rows, &takings, DeviceId(0), &readings, &[]);
        let told: Vec<_> = found
            .iter()
            .map(|sum| {
                (
                    sum.moment.name(),
                    sum.held_bytes / MIB,
                    sum.context_bytes,
                    sum.others_bytes,
                    sum.unknown_bytes / MIB as i64,
                )
            })
            .collect();
        let (context, others) = (Some(500 * MIB), Some(200 * MIB));
        assert_eq!(
            told,
            [
                ("first", 0, context, others, 0),
                ("peak", 1020, context, others, 0),
                ("end", 20, context, Some(210 * MIB), 0),
            ]
        );
        let loaded: Vec<_> = found.iter().map(|sum| sum.loaded_bytes).collect();
        assert_eq!(loaded, [Some(0), Some(20 * MIB), Some(0)]);
        for sum in &found {
            let own = sum.context_bytes.unwrap() + sum.loaded_bytes.unwrap();
            let parts = sum.held_bytes + own + sum.others_bytes.unwrap();
            assert_eq!(parts as i64 + sum.unknown_bytes, sum.reading.used_bytes as i64);
        }
    }

    #[test]
    fn where_the_driver_does_not_name_the_process_others_are_not_told_apart() {
        let rows = rows();
        let takings = Takings::of(&rows).all;
        let readings = [reading(0, 200, None), reading(1, 700, None), reading(3, 1720, None)];
        let oom = Reading { time_us: 1_000_025, order: None, used_bytes: 1721 * MIB, process_bytes: None };
        let found = sums(&rows, &takings, DeviceId(0), &readings, &[oom]);
        assert_eq!(found[0].reading.order, Some(1), "before the first call there is no context");
        assert_eq!((found[0].context_bytes, found[0].others_bytes), (Some(700 * MIB), None));
        assert!(found.iter().all(|sum| sum.loaded_bytes.is_none()));
        assert_eq!(
            (found[2].moment, found[2].calls, found[2].unknown_bytes),
            (SumMoment::Oom, 3, MIB as i64)
        );
    }

    #[test]
    fn a_failed_request_has_what_the_reading_before_it_says() {
        let rows = rows();
        let takings = Takings::of(&rows).all;
        let at = |time_us: i64, reading: Reading| Reading { time_us, ..reading };
        let readings =
            [at(1_000_000, reading(1, 700, Some(500))), at(1_000_012, reading(2, 1730, Some(1530)))];
        let oom = Reading { time_us: 1_000_025, order: None, used_bytes: 1760 * MIB, process_bytes: None };
        let found = sums(&rows, &takings, DeviceId(0), &readings, &[oom]);
        let sum = found.iter().find(|sum| sum.moment == SumMoment::Oom).unwrap();
        assert_eq!(
            (sum.held_bytes, sum.loaded_bytes, sum.others_bytes),
            (1020 * MIB, Some(30 * MIB), Some(200 * MIB))
        );
        assert_eq!(sum.unknown_bytes, 10 * MIB as i64);
    }

    #[test]
    fn no_reading_is_no_sum_and_calls_may_account_for_more_than_is_in_use() {
        let rows = rows();
        let takings = Takings::of(&rows).all;
        assert!(sums(&rows, &takings, DeviceId(0), &[], &[]).is_empty());
        let low = sums(&rows, &takings, DeviceId(0), &[reading(2, 900, None)], &[]);
        assert_eq!((low[0].context_bytes, low[0].unknown_bytes), (Some(0), -100 * MIB as i64));
    }
}
