//! The answer of `memlab diff` as plain data: what `--json` prints and what the renderers show.
//!
//! Owns shapes and names. Sizes are exact bytes; `None` is what a side does not know. Both sides are always told
//! alike: swapping the inputs swaps `before` and `after` and turns every sign around.

use serde::Serialize;

use crate::report::check::GateRow;
use crate::report::types::{Four, Timeline};

/// The same thing on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// In the first input.
    pub before: T,
    /// In the second input.
    pub after: T,
}

/// A figure on both sides.
pub type Change = Sides<Option<u64>>;

impl<T: PartialEq> Sides<Option<T>> {
    /// Whether both sides know it and say otherwise.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.before.is_some() && self.after.is_some() && self.before != self.after
    }
}

impl Change {
    /// After minus before, where both are known; at the ends of its range for what no memory has.
    #[must_use]
    pub fn delta(&self) -> Option<i64> {
        let (before, after) = (self.before?, self.after?);
        let size = i64::try_from(before.abs_diff(after)).unwrap_or(i64::MAX);
        Some(if after < before { -size } else { size })
    }
}

/// Two inputs, compared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DiffReport {
    /// Version of the JSON's meaning.
    pub schema: u32,
    /// For example `memlab 0.1.0`.
    pub tool: String,
    /// The first input.
    pub before: DiffInput,
    /// The second input.
    pub after: DiffInput,
    /// No figure that both sides know, no finding, setting or fact differs.
    pub same: bool,
    /// Devices, paired.
    pub devices: Vec<DeviceDiff>,
    /// Findings that only one side has.
    pub findings: FindingsDiff,
    /// Settings that differ.
    pub settings: Vec<FactDiff>,
    /// Facts of process and devices that differ; the process id, which always does, is left out.
    pub process: Vec<FactDiff>,
    /// What the comparison rests on, where it is not all that was asked for.
    pub notes: Vec<String>,
    /// The gate on growth, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateRow>,
}

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiffInput {
    /// Path as given.
    pub path: String,
    /// `trace`, or `report` for the JSON of an earlier analysis.
    pub kind: &'static str,
    /// `memlab-trace` or `torch-snapshot`.
    pub format: Option<String>,
    /// Events on all devices.
    pub events: Option<u64>,
    /// Whether the recording is whole.
    pub complete: Option<bool>,
}

/// One device of each side, or of one only.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceDiff {
    /// Index after; before where only that side has it.
    pub device: u32,
    /// Index on each side; `null` on the side that has none.
    pub indices: Sides<Option<u32>>,
    /// Each counter's own maximum.
    pub peak: Sides<Option<Four<Option<u64>>>>,
    /// Counters after the last event.
    pub end: Sides<Option<Four<Option<u64>>>>,
    /// Lines with a figure that differs (or all), largest change at the peak first.
    pub lines: Vec<LineDiff>,
    /// Lines that are the same in every figure and left out of `lines`.
    pub lines_unchanged: u64,
    /// Lines found under another number, left out or not.
    pub lines_moved: u64,
    /// Files found under another path.
    pub files_moved: Vec<Sides<String>>,
    /// Lines that hold more at the peak, left out or not.
    pub grown: LinesSum,
    /// Lines that hold less at the peak, left out or not.
    pub shrunk: LinesSum,
    /// Rows that `--top` left out of `lines`.
    pub lines_left_out: u64,
    /// What has no user line.
    pub unattributed: FiguresDiff,
    /// Where within libraries the bytes are; `null` where a side is a report, or neither is in any library.
    pub library_lines: Option<LibraryDiff>,
    /// What the memory is for; `null` where a side does not say.
    pub categories: Option<Vec<CategoryDiff>>,
    /// Modules; `null` unless both sides name them.
    pub modules: Option<Vec<ModuleDiff>>,
    /// At the peak of reserved bytes.
    pub fragmentation: Sides<Option<FragmentationFigures>>,
    /// Steps.
    pub steps: Sides<Option<StepFigures>>,
    /// Failed requests.
    pub ooms: Sides<Option<Vec<OomFigures>>>,
    /// Curves; only pictures use them.
    #[serde(skip)]
    pub timelines: Sides<Timeline>,
}

/// Figures of a line or of the remainder on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FiguresDiff {
    /// Bytes live when allocated bytes peak, before.
    pub before_bytes: Option<u64>,
    /// The same, after.
    pub after_bytes: Option<u64>,
    /// After minus before.
    pub delta_bytes: Option<i64>,
    /// The most that was ever held at one time.
    pub own_peak_bytes: Change,
    /// Bytes of all allocations together.
    pub total_bytes: Change,
    /// Number of allocations.
    pub allocations: Change,
    /// Bytes live after the last event.
    pub live_at_end_bytes: Change,
}

impl FiguresDiff {
    /// What was held at the peak.
    #[must_use]
    pub fn held(&self) -> Change {
        Sides { before: self.before_bytes, after: self.after_bytes }
    }

    /// Whether any figure is known to differ.
    #[must_use]
    pub fn differs(&self) -> bool {
        let rest = [self.own_peak_bytes, self.total_bytes, self.allocations, self.live_at_end_bytes];
        self.held().differs() || rest.iter().any(Sides::differs)
    }
}

/// A line on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineDiff {
    /// File as recorded after; before where the line is gone.
    pub file: Option<String>,
    /// Line number after; before where the line is gone.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: FiguresDiff,
    /// Where each side has it; `null` on the side that does not.
    pub places: Sides<Option<DiffPlace>>,
    /// Whether the number differs.
    pub moved: bool,
}

/// Lines of installed packages, PyTorch left out: those that the user's line called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LibraryDiff {
    /// Lines with a figure that differs (or all), largest change at the peak first.
    pub rows: Vec<LineDiff>,
    /// Lines that are the same in every figure and left out of `rows`.
    pub rows_unchanged: u64,
    /// Rows that `--top` left out of `rows`.
    pub rows_left_out: u64,
    /// Lines that hold more at the peak, left out or not.
    pub grown: LinesSum,
    /// Lines that hold less at the peak, left out or not.
    pub shrunk: LinesSum,
    /// What was not allocated within a library. With all rows it adds up to the allocated peak.
    pub no_library: FiguresDiff,
}

/// Several lines together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinesSum {
    /// How many.
    pub count: u64,
    /// The sum of their changes at the peak.
    pub delta_bytes: i64,
}

/// Where a side has a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DiffPlace {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
}

/// A category on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CategoryDiff {
    /// See `categories` of the report.
    pub category: String,
    /// Live when allocated bytes peak, before.
    pub before_bytes: Option<u64>,
    /// The same, after.
    pub after_bytes: Option<u64>,
    /// After minus before.
    pub delta_bytes: Option<i64>,
    /// The most it ever held at one moment.
    pub own_peak_bytes: Change,
    /// Live after the last event.
    pub live_at_end_bytes: Change,
}

/// A module on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleDiff {
    /// Qualified name; `null` for what carries none.
    pub module: Option<String>,
    /// Live when allocated bytes peak, before.
    pub before_bytes: Option<u64>,
    /// The same, after.
    pub after_bytes: Option<u64>,
    /// After minus before.
    pub delta_bytes: Option<i64>,
    /// Bytes of all allocations together.
    pub total_bytes: Change,
}

/// Where the reserved bytes of one side are at their peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FragmentationFigures {
    /// Reserved minus active bytes.
    pub unused_bytes: u64,
    /// The part of it in segments that a live block pins.
    pub stranded_bytes: Option<u64>,
    /// The part of it in segments that are wholly free.
    pub releasable_bytes: Option<u64>,
    /// `1 - active / reserved`.
    pub ratio: f64,
}

/// Steps of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepFigures {
    /// `marks`, `annotations`, `detected` or `none`.
    pub source: String,
    /// How many.
    pub count: u64,
    /// Median of the most allocated within a step.
    pub median_peak_bytes: Option<u64>,
    /// The most allocated within any step.
    pub max_peak_bytes: Option<u64>,
    /// Median of the growth from one step's end to the next one's.
    pub median_growth_bytes: Option<i64>,
}

/// A failed request of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OomFigures {
    /// Event number.
    pub event: Option<u64>,
    /// The rounded request.
    pub requested_bytes: Option<u64>,
    /// See `ooms` of the report.
    pub verdict: Option<String>,
    /// Line of the request.
    pub line: Option<String>,
}

/// Findings that only one side has, by rule, device and first line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FindingsDiff {
    /// Only after.
    pub appeared: Vec<FindingDiff>,
    /// Only before.
    pub vanished: Vec<FindingDiff>,
}

/// A finding of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingDiff {
    /// Rule.
    pub rule: String,
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// One sentence.
    pub title: String,
    /// Bytes concerned.
    pub bytes: Option<u64>,
    /// Device, as its own side counts.
    pub device: Option<u32>,
    /// Its first line, as people read it.
    pub line: Option<String>,
}

/// A setting or fact that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FactDiff {
    /// Its name.
    pub name: String,
    /// Before; `null` where it is not set or not recorded.
    pub before: Option<String>,
    /// After.
    pub after: Option<String>,
}

impl DeviceDiff {
    /// A counter's peak on both sides.
    #[must_use]
    pub fn peak_of(&self, counter: fn(&Four<Option<u64>>) -> Option<u64>) -> Change {
        Sides {
            before: self.peak.before.as_ref().and_then(counter),
            after: self.peak.after.as_ref().and_then(counter),
        }
    }

    /// A counter's value at the end on both sides.
    #[must_use]
    pub fn end_of(&self, counter: fn(&Four<Option<u64>>) -> Option<u64>) -> Change {
        Sides {
            before: self.end.before.as_ref().and_then(counter),
            after: self.end.after.as_ref().and_then(counter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_after_minus_before_and_never_overflows() {
        let delta = |before, after| Change { before, after }.delta();
        assert_eq!(delta(Some(5), Some(3)), Some(-2));
        assert_eq!(delta(Some(3), Some(5)), Some(2));
        assert_eq!(delta(Some(3), None), None);
        assert_eq!(delta(Some(u64::MAX), Some(0)), Some(-i64::MAX));
    }

    #[test]
    fn what_is_not_known_does_not_differ() {
        assert!(Change { before: Some(1), after: Some(2) }.differs());
        assert!(!Change { before: None, after: Some(2) }.differs());
        assert!(!FiguresDiff { after_bytes: Some(2), ..FiguresDiff::default() }.differs());
    }
}
