//! All that a rule may look at on one device.
//!
//! Owns what several rules ask for (states, lines, sums), computed once and when first asked for. Judges
//! nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::model::{DeviceId, DeviceTrace, PoolId, Settings, StackId, Trace};
use crate::rebuild::{History, Moment, OomEvent, State};
use crate::tables::{
    self, Categories, GroupKey, Grouping, Maker, Makers, Names, Origins, Phases, Readings, StepTable,
    Streams, streams,
};

use super::{LineBytes, Verdict};

/// A failed request with its verdict.
#[derive(Clone, Debug)]
pub struct JudgedOom {
    /// The event.
    pub oom: OomEvent,
    /// Pool of the request; the default pool when not recorded.
    pub pool: PoolId,
    /// Why it failed.
    pub verdict: Verdict,
}

/// The allocator setting that a replay recommends.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingHelp {
    /// Text of `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// Why.
    pub reason: String,
    /// Whether every request is served under it.
    pub fits: bool,
    /// The most that is reserved under it.
    pub peak_reserved_bytes: u64,
    /// By how much that is less than recorded; negative when it is more.
    pub saved_bytes: i64,
}

/// One device, from its events to its tables.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// The device's part of it.
    pub device: &'a DeviceTrace,
    /// What happened.
    pub history: &'a History,
    /// Allocations by line, whatever the report groups by.
    pub lines: &'a Grouping,
    /// Steps.
    pub steps: &'a StepTable,
    /// Failed requests that the report looks at, in order.
    pub ooms: &'a [JudgedOom],
    /// Memory of the device, when recorded.
    pub total_bytes: Option<u64>,
    /// What driver and allocator said while the recording ran; `None` when nobody asked them.
    pub readings: Option<&'a Readings>,
    /// What a replay recommends; `None` when nothing was replayed, or nothing helps.
    pub setting: Option<SettingHelp>,
    /// Lazily computed; see the methods.
    pub states: States,
}

/// States that several rules look at.
#[derive(Debug, Default)]
pub struct States {
    reserved_peak: OnceLock<State>,
    end: OnceLock<State>,
    last_oom: OnceLock<Option<State>>,
    makers: OnceLock<Makers>,
    survivors: OnceLock<Vec<usize>>,
    streams: OnceLock<Streams>,
    origins: OnceLock<Origins>,
    phases: OnceLock<Phases>,
    names: OnceLock<Option<Names>>,
    categories: OnceLock<Categories>,
}

impl Scene<'_> {
    /// Index of the device.
    #[must_use]
    pub fn id(&self) -> DeviceId {
        self.device.device
    }

    /// Allocator settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.trace.settings
    }

    /// The allocator when reserved bytes peak.
    #[must_use]
    pub fn at_reserved_peak(&self) -> &State {
        let moment = self.history.peaks.reserved.moment;
        self.states.reserved_peak.get_or_init(|| self.history.state_at(moment))
    }

    /// The allocator after the last event.
    #[must_use]
    pub fn at_end(&self) -> &State {
        self.states.end.get_or_init(|| self.history.state_at(Moment(self.history.events)))
    }

    /// The allocator at the last failed request.
    #[must_use]
    pub fn at_last_oom(&self) -> Option<&State> {
        let state = || self.ooms.last().map(|oom| self.history.state_at(Moment(oom.oom.event)));
        self.states.last_oom.get_or_init(state).as_ref()
    }

    /// The allocator at `moment`; the states above are not built again.
    #[must_use]
    pub fn state_at(&self, moment: Moment) -> Cow<'_, State> {
        let last_oom = self.ooms.last().map(|oom| Moment(oom.oom.event));
        match moment {
            moment if moment == self.history.peaks.reserved.moment => Cow::Borrowed(self.at_reserved_peak()),
            moment if moment.0 == self.history.events => Cow::Borrowed(self.at_end()),
            moment if last_oom == Some(moment) => {
                self.at_last_oom().map_or_else(|| Cow::Owned(self.history.state_at(moment)), Cow::Borrowed)
            }
            moment => Cow::Owned(self.history.state_at(moment)),
        }
    }

    /// Who made what, as frames say.
    #[must_use]
    pub fn makers(&self) -> &Makers {
        let makers = || Makers::new(self.trace, self.history, &self.lines.facts);
        self.states.makers.get_or_init(makers)
    }

    /// Who made allocation `row`.
    #[must_use]
    pub fn maker(&self, row: usize) -> Maker {
        self.makers().of(self.history, row, |event| self.phases().of_event(event))
    }

    /// Rows of the allocations that stay until nothing is asked for any more, ascending.
    #[must_use]
    pub fn survivors(&self) -> &[usize] {
        self.states.survivors.get_or_init(|| tables::survivors(self.history))
    }

    /// Bytes of the blocks of `rows`.
    #[must_use]
    pub fn block_bytes(&self, rows: &[usize]) -> u64 {
        let bytes = |sum: u64, &row: &usize| sum.saturating_add(self.history.allocations.block_bytes[row]);
        rows.iter().fold(0, bytes)
    }

    /// The lines of `rows` with the bytes of their blocks, most bytes first.
    #[must_use]
    pub fn lines_of(&self, rows: &[usize]) -> Vec<LineBytes> {
        self.by_line(rows.iter().map(|&row| (row, self.history.allocations.block_bytes[row])))
    }

    /// Who made each allocation, by stack, or by line where the stack names none.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        self.states.origins.get_or_init(|| Origins::by_stack(self.lines, self.history))
    }

    /// Who uses which stream, and which is the main one.
    #[must_use]
    pub fn streams(&self) -> &Streams {
        self.states.streams.get_or_init(|| streams(self.history))
    }

    /// What the process was doing at every event.
    #[must_use]
    pub fn phases(&self) -> &Phases {
        let found = || tables::phases(self.trace, self.device, self.history, self.lines);
        self.states.phases.get_or_init(found)
    }

    /// What the recorder's censuses say; `None` without a census of this device.
    #[must_use]
    pub fn names(&self) -> Option<&Names> {
        let found = || tables::names(self.trace, self.device, self.history);
        self.states.names.get_or_init(found).as_ref()
    }

    /// What every allocation is for: by name where a census tells, else derived.
    #[must_use]
    pub fn categories(&self) -> &Categories {
        self.states.categories.get_or_init(|| {
            tables::categories(self.trace, self.device, self.history, self.phases(), self.names())
        })
    }

    /// The line that allocation `row` is charged to, with `bytes`; `None` when no line is known.
    #[must_use]
    pub fn line_of(&self, row: usize, bytes: u64) -> Option<LineBytes> {
        self.named(self.lines.key_of_allocation(row)?, bytes)
    }

    /// The line of a stack (of an OOM, of a segment), with `bytes`.
    #[must_use]
    pub fn line_of_stack(&self, stack: StackId, bytes: u64) -> Option<LineBytes> {
        self.named(self.lines.key_of_stack(stack)?, bytes)
    }

    /// The group of a line's number in [`Scene::lines`] as a line.
    #[must_use]
    pub fn line_of_group(&self, group: u32, bytes: u64) -> Option<LineBytes> {
        self.named(self.lines.keys.get(group as usize)?, bytes)
    }

    /// Adds up `(row, bytes)` by line, most bytes first; rows without a line are left out.
    #[must_use]
    pub fn by_line(&self, rows: impl IntoIterator<Item = (usize, u64)>) -> Vec<LineBytes> {
        let groups = self.by_group(rows);
        groups.into_iter().filter_map(|(group, bytes)| self.line_of_group(group, bytes)).collect()
    }

    /// Adds up `(row, bytes)` by the number of their line in [`Scene::lines`], most bytes first, then by number;
    /// rows without a line are left out.
    #[must_use]
    pub fn by_group(&self, rows: impl IntoIterator<Item = (usize, u64)>) -> Vec<(u32, u64)> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (row, bytes) in rows {
            if let Some(&group) = self.lines.of_allocation.get(row) {
                let sum = sums.entry(group).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        let known = |group: &u32| self.lines.keys.get(*group as usize).is_some();
        let mut groups: Vec<(u32, u64)> = sums.into_iter().filter(|(group, _)| known(group)).collect();
        groups.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        groups
    }

    /// Rows of the allocations that are allocated at `moment`. A scan of all of them.
    pub fn live_at(&self, moment: Moment) -> impl Iterator<Item = usize> + '_ {
        let rows = &self.history.allocations;
        (0..rows.len()).filter(move |&row| rows.is_allocated_at(row, moment))
    }

    fn named(&self, key: &GroupKey, bytes: u64) -> Option<LineBytes> {
        line_bytes(self.trace, key, bytes)
    }
}

/// The line that `key` stands for, with `bytes`; `None` when it has no name.
#[must_use]
pub fn line_bytes(trace: &Trace, key: &GroupKey, bytes: u64) -> Option<LineBytes> {
    Some(LineBytes {
        file: key.module.clone().or_else(|| key.file(trace).map(str::to_owned))?,
        line: key.line.unwrap_or(0),
        function: key.function(trace).unwrap_or_default().to_owned(),
        bytes,
    })
}

#[cfg(test)]
pub(crate) mod samples {
    //! Scenes of small traces, for the tests of rules.
    #![allow(clippy::unwrap_used)]

    use crate::findings::{Finding, Rule, judge_all, rule};
    use crate::model::{Mark, MarkKind, Trace};
    use crate::rebuild::rebuild;
    use crate::tables::{GroupBy, Grouping, readings, steps};

    use super::{Scene, States};
    use crate::findings::Check;

    /// Calls `look` with the scene of `trace`'s first device.
    pub(crate) fn with_scene<T>(
        trace: &Trace,
        total_bytes: Option<u64>,
        look: impl FnOnce(&Scene) -> T,
    ) -> T {
        let device = &trace.devices[0];
        let history = rebuild(trace, device);
        let lines = Grouping::build(trace, device, &history, GroupBy::Line);
        let table = steps(trace, device, &history);
        let ooms = judge_all(trace, device, &history, total_bytes, &history.ooms);
        let readings = readings(trace, device, &history);
        look(&Scene {
            trace,
            device,
            history: &history,
            lines: &lines,
            steps: &table,
            ooms: &ooms,
            total_bytes,
            readings: readings.as_ref(),
            setting: None,
            states: States::default(),
        })
    }

    /// Marks a step before each of the events in `begins` of a trace as [`crate::model::TraceBuilder`] times it.
    pub(crate) fn mark_steps(trace: &mut Trace, begins: impl IntoIterator<Item = usize>) {
        for (step, event) in begins.into_iter().enumerate() {
            let (name, time_us) = (step.to_string(), 1_000_000 + 10 * event as i64 - 5);
            trace.marks.push(Mark { kind: MarkKind::Step, name, time_us, begins: None });
        }
    }

    /// What the rule called `name` finds on the first device of `trace`.
    pub(crate) fn found(name: &str, trace: &Trace, total_bytes: Option<u64>) -> Vec<Finding> {
        let rule: &Rule = rule(name).unwrap();
        match rule.check {
            Check::Device(check) => with_scene(trace, total_bytes, |scene| check(scene).unwrap()),
            _ => panic!("{name} is not a rule over one device"),
        }
    }
}
