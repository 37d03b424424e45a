//! Names of allocations: what a census of live tensors said they are, and who holds them.
//!
//! Owns tying a census to the allocations of a history, by address and moment, and the sums by kind. Guesses
//! nothing: an allocation that no census names is of kind [`UNKNOWN_KIND`].

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{DeviceId, DeviceTrace, Trace};
use crate::rebuild::{History, Moment, NONE};

use super::clock::Clock;

/// The kind of an allocation that no census names.
pub const UNKNOWN_KIND: &str = "unknown";

/// What says least about a storage: another census's word is preferred.
const VAGUE_KINDS: [&str; 2] = ["", "other"];

/// Live allocations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategoryRow {
    /// As the census says, or [`UNKNOWN_KIND`].
    pub kind: String,
    /// How many.
    pub allocations: u64,
    /// Bytes of their storages as the census says; requested bytes where none names them.
    pub bytes: u64,
    /// Bytes of their blocks.
    pub block_bytes: u64,
}

/// An allocation that a census names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorRow {
    /// Row in the history's allocations.
    pub allocation: usize,
    /// Row in [`Trace::tensors`].
    pub tensor: usize,
}

/// Someone who holds a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderRow {
    /// Row in the history's allocations; `None` where nothing was live at that address.
    pub allocation: Option<usize>,
    /// Row in [`Trace::holders`].
    pub holder: usize,
    /// Row in [`Trace::tensors`] that names the allocation.
    pub tensor: Option<usize>,
}

/// What the censuses of one device say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// How many censuses there were.
    pub censuses: u64,
    /// Named tensors at whose address nothing was live.
    pub unmatched_tensors: u64,
    /// Their bytes.
    pub unmatched_bytes: u64,
    /// By kind when allocated bytes peak: most bytes first, unknown last.
    pub at_peak: Vec<CategoryRow>,
    /// At the last OOM.
    pub at_oom: Option<Vec<CategoryRow>>,
    /// After the last event.
    pub at_end: Vec<CategoryRow>,
    /// Named allocations, largest first.
    pub tensors: Vec<TensorRow>,
    /// Holders, those of the largest allocation first; what several censuses say alike stands once.
    pub holders: Vec<HolderRow>,
}

/// What the censuses of `device` say; `None` when there was none.
#[must_use]
pub fn names(trace: &Trace, device: &DeviceTrace, history: &History) -> Option<Names> {
    let mut search = Search::of(trace, device, history);
    if search.entries.is_empty() {
        return None;
    }
    search.run(trace, history);
    let Search { entries, matched, tensor_of, .. } = search;
    let mut names = Names { censuses: censuses(trace, device), ..Names::default() };
    for (entry, matched) in entries.iter().zip(&matched) {
        match entry.source {
            Source::Tensor(tensor) if matched.is_none() => {
                names.unmatched_tensors += 1;
                names.unmatched_bytes = names.unmatched_bytes.saturating_add(trace.tensors[tensor].bytes);
            }
            Source::Tensor(_) => {}
            Source::Holder(holder) => {
                let allocation = matched.map(|row| row as usize);
                let tensor = allocation.and_then(|row| tensor_of.get(&row).copied());
                names.holders.push(HolderRow { allocation, holder, tensor });
            }
        }
    }
    let sums = |moment| categories(trace, history, &tensor_of, moment);
    names.at_peak = sums(history.peaks.allocated.moment);
    names.at_oom = history.ooms.last().map(|oom| sums(Moment(oom.event)));
    names.at_end = sums(Moment(history.events));
    names.tensors = tensor_of.iter().map(|(&allocation, &tensor)| TensorRow { allocation, tensor }).collect();
    names.sort(trace, history);
    Some(names)
}

impl Names {
    fn sort(&mut self, trace: &Trace, history: &History) {
        let bytes = |row: usize| history.allocations.block_bytes[row];
        let name = |row: &TensorRow| trace.tensors[row.tensor].name.as_str();
        self.tensors.sort_by(|a, b| {
            let order = bytes(b.allocation).cmp(&bytes(a.allocation));
            order.then_with(|| name(a).cmp(name(b))).then(a.tensor.cmp(&b.tensor))
        });
        self.holders.sort_by_key(|row| {
            let bytes = row.allocation.map_or(0, bytes);
            (std::cmp::Reverse(bytes), row.allocation, row.holder)
        });
        let mut said = BTreeSet::new();
        self.holders.retain(|row| {
            let holder = &trace.holders[row.holder];
            said.insert((row.allocation, holder.address, holder.path.as_str()))
        });
    }
}

fn censuses(trace: &Trace, device: &DeviceTrace) -> u64 {
    let own = trace.tensors.iter().filter(|tensor| tensor.device == device.device);
    own.map(|tensor| (tensor.time_us, tensor.events)).collect::<BTreeSet<_>>().len() as u64
}

/// What a census entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Tensor(usize),
    Holder(usize),
}

/// An address that a census saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    address: u64,
    moment: Moment,
    source: Source,
}

/// Census entries on their way to allocations.
struct Search {
    /// By address, then moment, tensors first.
    entries: Vec<Entry>,
    /// For each entry: the row of the allocation that was live there, if any.
    matched: Vec<Option<u32>>,
    /// Allocation row to row in [`Trace::tensors`].
    tensor_of: BTreeMap<usize, usize>,
}

impl Search {
    fn of(trace: &Trace, device: &DeviceTrace, history: &History) -> Self {
        let clock = Clock::of(&device.events);
        let end = Moment(history.events);
        // Without a moment and without times, a census is taken for one at the end: most are.
        let moment = |events: Option<u64>, time_us: i64| match events {
            Some(events) => Moment(events - history.first_event).min(end),
            None => clock.moment_after(time_us).unwrap_or(end),
        };
        // A census from before an excerpt, or behind it, names what other allocations had at these addresses.
        let first = history.first_event;
        let is_behind = |events: Option<u64>, time_us: i64| match events {
            _ if device.reaches_the_end() => false,
            Some(events) => events > first + history.events,
            None => device.events.times_us.last().is_none_or(|&last| time_us > last),
        };
        let is_before = |events: Option<u64>, time_us: i64| match events {
            _ if first == 0 => false,
            Some(events) => events < first,
            None => clock.start_us().is_some_and(|start| time_us < start),
        };
        let is_within = |events, time_us| !is_before(events, time_us) && !is_behind(events, time_us);
        let is_own = |own: DeviceId, events, time_us| own == device.device && is_within(events, time_us);
        let tensors = trace.tensors.iter().enumerate();
        let tensors = tensors.filter(|(_, row)| is_own(row.device, row.events, row.time_us));
        let holders = trace.holders.iter().enumerate();
        let holders = holders.filter(|(_, row)| is_own(row.device, row.events, row.time_us));
        let mut entries: Vec<Entry> = tensors
            .map(|(at, row)| (row.address, row.events, row.time_us, Source::Tensor(at)))
            .chain(holders.map(|(at, row)| (row.address, row.events, row.time_us, Source::Holder(at))))
            .map(|(address, events, time_us, source)| Entry {
                address,
                moment: moment(events, time_us),
                source,
            })
            .collect();
        entries.sort_unstable();
        let matched = vec![None; entries.len()];
        Self { entries, matched, tensor_of: BTreeMap::new() }
    }

    /// One pass over all allocations; each finds the entries of its address within its life.
    fn run(&mut self, trace: &Trace, history: &History) {
        let allocations = &history.allocations;
        for (row, &address) in allocations.addresses.iter().enumerate() {
            let alloc = allocations.alloc_events[row];
            let begin = if alloc == NONE { Moment(0) } else { Moment::after(alloc.into()) };
            let mut at =
                self.entries.partition_point(|entry| (entry.address, entry.moment) < (address, begin));
            let mut named_at = None;
            while let Some(&entry) = self.entries.get(at).filter(|entry| entry.address == address) {
                if !allocations.is_allocated_at(row, entry.moment) {
                    break;
                }
                self.matched[at] = Some(row as u32);
                at += 1;
                if let Source::Tensor(tensor) = entry.source
                    && named_at != Some(entry.moment)
                {
                    named_at = Some(entry.moment);
                    self.name(trace, row, tensor);
                }
            }
        }
    }

    /// A later census's word replaces an earlier one's, unless it says less.
    fn name(&mut self, trace: &Trace, row: usize, tensor: usize) {
        let vague = VAGUE_KINDS.contains(&trace.tensors[tensor].kind.as_str());
        if !vague || !self.tensor_of.contains_key(&row) {
            self.tensor_of.insert(row, tensor);
        }
    }
}

fn categories(
    trace: &Trace,
    history: &History,
    tensor_of: &BTreeMap<usize, usize>,
    moment: Moment,
) -> Vec<CategoryRow> {
    let allocations = &history.allocations;
    let mut kinds: BTreeMap<&str, CategoryRow> = BTreeMap::new();
    for row in (0..allocations.len()).filter(|&row| allocations.is_allocated_at(row, moment)) {
        let tensor = tensor_of.get(&row).map(|&tensor| &trace.tensors[tensor]);
        let (kind, bytes) = match tensor {
            Some(tensor) if tensor.kind.is_empty() => (UNKNOWN_KIND, tensor.bytes),
            Some(tensor) => (tensor.kind.as_str(), tensor.bytes),
            None => (UNKNOWN_KIND, allocations.requested_bytes[row]),
        };
        let sum = kinds.entry(kind).or_default();
        sum.allocations += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.block_bytes = sum.block_bytes.saturating_add(allocations.block_bytes[row]);
    }
    let mut rows: Vec<CategoryRow> =
        kinds.into_iter().map(|(kind, row)| CategoryRow { kind: kind.to_owned(), ..row }).collect();
    rows.sort_by_key(|row| (row.kind == UNKNOWN_KIND, std::cmp::Reverse(row.block_bytes)));
    rows
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{DeviceId, Holder, NamedTensor, TraceBuilder};
    use crate::rebuild::rebuild;

    const A: u64 = 0x7f00_0000_0000;

    fn tensor(address: u64, kind: &str, name: &str, events: Option<u64>, time_us: i64) -> NamedTensor {
        NamedTensor {
            address,
            bytes: 1000,
            kind: kind.to_owned(),
            name: name.to_owned(),
            events,
            time_us,
            ..NamedTensor::default()
        }
    }

    /// One address twice: first 1024 bytes, then again; a second block beside it.
    fn trace() -> Trace {
        TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 1000)
            .alloc(A + 1024, 5000)
            .free(A, 1000)
            .alloc(A, 900)
            .build()
    }

    fn found(trace: &Trace) -> Names {
        let device = &trace.devices[0];
        names(trace, device, &rebuild(trace, device)).unwrap()
    }

    fn kinds(rows: &[CategoryRow]) -> Vec<(&str, u64, u64)> {
        rows.iter().map(|row| (row.kind.as_str(), row.bytes, row.block_bytes)).collect()
    }

    #[test]
    fn a_name_belongs_to_the_allocation_of_its_moment_not_to_the_address() {
        let mut trace = trace();
        trace.tensors =
            vec![tensor(A, "activation", "early", Some(3), 0), tensor(A, "gradient", "late", Some(6), 0)];
        let found = found(&trace);
        assert_eq!(kinds(&found.at_peak), [("activation", 1000, 1024), ("unknown", 5000, 5120)]);
        assert_eq!(kinds(&found.at_end), [("gradient", 1000, 1024), ("unknown", 5000, 5120)]);
        assert_eq!((found.censuses, found.unmatched_tensors, found.at_oom), (2, 0, None));
    }

    #[test]
    fn time_stands_in_for_a_missing_moment() {
        let mut trace = trace();
        // Events are at 1,000,000 us and every 10 us after.
        trace.tensors = vec![tensor(A, "activation", "early", None, 1_000_025)];
        assert_eq!(kinds(&found(&trace).at_end), [("unknown", 5900, 6144)]);
        trace.tensors[0].time_us = 1_000_500;
        assert_eq!(kinds(&found(&trace).at_end)[0], ("activation", 1000, 1024));
    }

    #[test]
    fn of_one_census_the_first_name_counts_and_of_several_the_last_that_says_something() {
        let mut trace = trace();
        trace.tensors = vec![
            tensor(A + 1024, "parameter", "w", Some(3), 1),
            tensor(A + 1024, "buffer", "alias", Some(3), 1),
            tensor(A + 1024, "other", "", Some(6), 2),
        ];
        let found = found(&trace);
        assert_eq!(found.tensors.len(), 1);
        assert_eq!(trace.tensors[found.tensors[0].tensor].name, "w");
        trace.tensors[2].kind = "gradient".to_owned();
        assert_eq!(kinds(&self::found(&trace).at_end)[0].0, "gradient");
    }

    #[test]
    fn what_is_not_there_is_counted_and_other_devices_do_not_matter() {
        let mut trace = trace();
        trace.tensors = vec![tensor(A + 512, "parameter", "inside", Some(6), 0)];
        trace.tensors.push(NamedTensor { device: DeviceId(1), ..tensor(A, "parameter", "x", Some(6), 0) });
        let holder = |address, path: &str| Holder {
            address,
            path: path.to_owned(),
            events: Some(6),
            ..Holder::default()
        };
        trace.holders = vec![holder(A + 512, "nowhere"), holder(A, "small"), holder(A + 1024, "large")];
        let found = self::found(&trace);
        assert_eq!((found.unmatched_tensors, found.unmatched_bytes), (1, 1000));
        let paths: Vec<_> = found.holders.iter().map(|row| trace.holders[row.holder].path.as_str()).collect();
        assert_eq!(paths, ["large", "small", "nowhere"]);
        assert_eq!(found.holders[2].allocation, None);
        trace.holders.extend_from_within(..);
        assert_eq!(self::found(&trace).holders.len(), 3, "said by two censuses");
    }

    #[test]
    fn a_device_without_a_census_has_no_names() {
        let trace = trace();
        assert_eq!(names(&trace, &trace.devices[0], &rebuild(&trace, &trace.devices[0])), None);
    }
}
