//! Tables of a trace as files: how one is made.
//!
//! Owns the order of the work; which tables there are is `export_table`'s, the columns and what they say
//! `tables::frames`', the formats `tables::write`'s. What only some tables need is computed when one asks.

use std::cell::OnceCell;
use std::io::Write;

use crate::driver::Claims;
use crate::error::Result;
use crate::findings::{self, DeviceFacts, Finding, judge_all};
use crate::model::{DeviceTrace, Trace, Warnings};
use crate::rebuild::{History, Moment, State, rebuild};
use crate::report::SelfCheckRow;
use crate::tables::{
    self, Categories, CategoryFigures, FindingEntry, FragmentationEntry, FrameSource, GroupBy, Grouping,
    Names, OomEntry, Phases, PoolUse, Purposes, Sink, StackHashes, StepTable, TableFormat,
};

use super::{Options, Table, device as analysed, export_rows as rows, recorded};

/// Writes tables of one device; what they share is computed once.
#[derive(Debug)]
pub struct Exporter<'a> {
    trace: &'a Trace,
    device: &'a DeviceTrace,
    history: History,
    grouping: Grouping,
    hashes: StackHashes,
    steps: OnceCell<StepTable>,
    purposes: OnceCell<KnownPurposes>,
    found: OnceCell<Found>,
}

/// What the rules find on the device, and what those over several devices need of it.
#[derive(Debug)]
struct Found {
    findings: Vec<Finding>,
    facts: DeviceFacts,
}

/// What allocations are for: several tables ask.
#[derive(Debug)]
struct KnownPurposes {
    phases: Phases,
    names: Option<Names>,
    categories: Categories,
}

impl<'a> Exporter<'a> {
    /// Rebuilds `device` of `trace` and groups its allocations by line.
    #[must_use]
    pub fn new(trace: &'a Trace, device: &'a DeviceTrace) -> Self {
        let history = rebuild(trace, device);
        let grouping = Grouping::build(trace, device, &history, GroupBy::Line);
        let hashes = StackHashes::of(trace);
        let (steps, purposes, found) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { trace, device, history, grouping, hashes, steps, purposes, found }
    }

    /// Writes `table` as `format` to `output`; the same trace gives the same bytes.
    ///
    /// # Errors
    /// Those of `output`; [`crate::error::Error::Table`] when a table cannot be built.
    pub fn write(&self, table: Table, format: TableFormat, output: &mut dyn Write) -> Result<()> {
        tables::write_table(table.schema(), format, output, &mut |sink| {
            self.fill(table, std::slice::from_ref(self), sink)
        })
    }

    /// Hands the pieces of `table` to `sink`. `known` are exporters of devices of the same trace: what the rules over
    /// several devices need is taken from them.
    pub(super) fn fill(&self, table: Table, known: &[Self], sink: &mut Sink<'_>) -> Result<()> {
        let Self { trace, device, history, grouping, .. } = self;
        let source = self.source();
        match table {
            Table::Trace => {
                let total_bytes = analysed::total_bytes(trace, device.device);
                sink(tables::trace_frame(&source, total_bytes, self.is_complete())?)
            }
            Table::Allocations => {
                self.with_purposes(|purposes| tables::allocation_frames(&source, purposes, sink))
            }
            Table::Stacks => tables::stack_frames(&source, sink),
            Table::Lines => {
                let lines = tables::lines(trace, device, history, grouping, None)?;
                sink(tables::lines_frame(&source, &lines)?)
            }
            Table::Steps => sink(tables::steps_frame(&source, self.steps())?),
            Table::StepLines => tables::step_line_frames(&source, self.steps(), sink),
            Table::Categories => sink(tables::categories_frame(&source, &self.categories())?),
            Table::Modules => {
                let modules = tables::modules(device, history, grouping);
                sink(tables::modules_frame(&source, modules.as_ref())?)
            }
            Table::Usage => tables::usage_frames(&source, sink),
            Table::Segments => sink(tables::segments_frame(&source)?),
            Table::Fragmentation => sink(tables::fragmentation_frame(&source, &self.fragmentation()?)?),
            Table::Pins => sink(tables::pins_frame(&source, &self.fragmentation()?)?),
            Table::Pools => sink(tables::pools_frame(&source, &self.pools())?),
            Table::Ooms => sink(tables::ooms_frame(&source, &self.ooms())?),
            Table::Findings => sink(tables::findings_frame(&source, &self.findings(known)?)?),
            Table::Warnings => {
                let (of_file, of_device) = self.warnings();
                sink(tables::warnings_frame(&source, &of_file, &of_device)?)
            }
        }
    }

    fn source(&self) -> FrameSource<'_> {
        let Self { trace, device, history, grouping, hashes, .. } = self;
        FrameSource { trace, device, history, grouping, hashes }
    }

    fn steps(&self) -> &StepTable {
        self.steps.get_or_init(|| tables::steps(self.trace, self.device, &self.history))
    }

    /// Calls `look` with what allocations are for.
    fn with_purposes<T>(&self, look: impl FnOnce(Purposes<'_>) -> T) -> T {
        let Self { trace, device, history, grouping, .. } = self;
        let known = self.purposes.get_or_init(|| {
            let phases = tables::phases(trace, device, history, grouping);
            let names = tables::names(trace, device, history);
            let categories = tables::categories(trace, device, history, &phases, names.as_ref());
            KnownPurposes { phases, names, categories }
        });
        look(Purposes {
            steps: self.steps(),
            phases: &known.phases,
            categories: &known.categories,
            names: known.names.as_ref(),
        })
    }

    fn categories(&self) -> Vec<CategoryFigures> {
        let history = &self.history;
        let (peak, all) = (history.peaks.allocated.moment, 0..history.events);
        let oom = history.ooms.last().map(|oom| Moment(oom.event));
        self.with_purposes(|purposes| tables::category_figures(purposes.categories, history, &all, peak, oom))
    }

    /// The moments of interest with their names, and the allocator there.
    fn moments(&self) -> impl Iterator<Item = (&'static str, Moment, State)> {
        let history = &self.history;
        let oom = history.ooms.last().map(|oom| ("oom", Moment(oom.event)));
        let peak = ("peak", history.peaks.reserved.moment);
        let moments = [Some(peak), oom, Some(("end", Moment(history.events)))].into_iter().flatten();
        moments.map(|(name, moment)| (name, moment, history.state_at(moment)))
    }

    fn fragmentation(&self) -> Result<Vec<FragmentationEntry>> {
        let main_stream = tables::streams(&self.history).main;
        let entry = |(name, moment, state): (_, _, State)| {
            Ok(FragmentationEntry {
                moment: name,
                figures: tables::fragmentation(&state, moment, &self.grouping)?,
                causes: tables::causes(&state, main_stream),
                main_stream,
            })
        };
        self.moments().map(entry).collect()
    }

    fn pools(&self) -> Vec<(&'static str, Vec<PoolUse>)> {
        self.moments().map(|(name, _, state)| (name, tables::pools(&state))).collect()
    }

    fn ooms(&self) -> Vec<OomEntry> {
        let Self { trace, device, history, .. } = self;
        let total_bytes = analysed::total_bytes(trace, device.device);
        judge_all(trace, device, history, total_bytes, &history.ooms).iter().map(rows::oom).collect()
    }

    /// What is found on the device, in the report's order.
    fn findings(&self, known: &[Self]) -> Result<Vec<FindingEntry>> {
        let facts: Vec<DeviceFacts> = (self.trace.devices.iter())
            .map(|device| match known.iter().find(|known| known.device.device == device.device) {
                Some(known) => Ok(known.found()?.facts.clone()),
                None => Ok(analysed::analyze(self.trace, device, &Options::default())?.facts),
            })
            .collect::<Result<_>>()?;
        let mut found = self.found()?.findings.clone();
        let of_trace = findings::of_trace(self.trace, &facts, Claims::of(self.trace).as_ref());
        found.extend(of_trace.into_iter().filter(|finding| finding.device == self.device.device));
        found.sort_by_key(|finding| finding.severity);
        Ok(found.into_iter().map(rows::finding).collect())
    }

    /// Analyses the device, once.
    fn found(&self) -> Result<&Found> {
        let Self { trace, device, history, grouping, .. } = self;
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let own = analysed::analyze_rebuilt(trace, device, history, grouping, &Options::default())?;
        Ok(self.found.get_or_init(|| Found { findings: own.findings, facts: own.facts }))
    }

    /// Faults of the file, and of this device.
    pub(super) fn warnings(&self) -> (Warnings, Warnings) {
        let (mut of_file, mut of_device) = (self.trace.warnings.clone(), self.history.warnings.clone());
        recorded::is_whole(self.trace, &mut of_file);
        if let Some(check) = self.self_check() {
            recorded::warn_of_check(self.device.device.0, &check, &mut of_device);
        }
        (of_file, of_device)
    }

    fn self_check(&self) -> Option<SelfCheckRow> {
        let readings = tables::readings(self.trace, self.device, &self.history)?;
        recorded::self_check(&readings)
    }

    /// The device's index.
    pub(super) fn device_index(&self) -> u32 {
        self.device.device.0
    }

    /// Whether the recording is whole, as far as file, recorder and counters tell.
    pub(super) fn is_complete(&self) -> bool {
        let is_whole = recorded::is_whole(self.trace, &mut Warnings::default());
        let is_missing = self.self_check().is_some_and(|check| check.missing_allocations > 0);
        self.trace.complete && is_whole && !is_missing
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn every_table_is_written_in_both_formats() {
        let trace = TraceBuilder::new()
            .segment_alloc(0x7000_0000_0000, 2 << 20)
            .at("train.py", 3, "step")
            .alloc(0x7000_0000_0000, 4096)
            .free(0x7000_0000_0000, 4096)
            .build();
        let exporter = Exporter::new(&trace, &trace.devices[0]);
        for table in Table::ALL {
            let mut csv = Vec::new();
            exporter.write(table, TableFormat::Csv, &mut csv).unwrap();
            assert!(csv.contains(&b','), "{table} has a head");
            let mut parquet = Vec::new();
            exporter.write(table, TableFormat::Parquet, &mut parquet).unwrap();
            assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{table}");
        }
    }
}
