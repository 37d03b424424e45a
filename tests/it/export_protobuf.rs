//! Exports for pprof and Perfetto, read back: their figures are the history's.

use std::path::Path;

use memlab::export::{LARGEST_ALLOCATIONS, LINES_SHOWN, write_perfetto, write_pprof};
use memlab::model::{
    Annotation, DeviceFacts, DeviceId, DeviceTrace, Mark, MarkKind, NO_TIME, Trace, TraceBuilder,
    is_invisible, visible,
};
use memlab::rebuild::{History, Moment, rebuild};
use memlab::tables::{GroupBy, Grouping, lines, steps};

use crate::inputs::{read, recording, recordings, testdata};
use crate::protobuf::{Profile, Timeline};

const A: u64 = 0x7f00_0000_0000;

fn histories(trace: &Trace) -> Vec<History> {
    trace.devices.iter().map(|device| rebuild(trace, device)).collect()
}

fn pprof(trace: &Trace, histories: &[History], moments: &[Moment]) -> Vec<u8> {
    let devices: Vec<(&DeviceTrace, &History)> = trace.devices.iter().zip(histories).collect();
    let mut written = Vec::new();
    write_pprof(trace, &devices, moments, &mut written).unwrap();
    written
}

fn groupings(trace: &Trace, histories: &[History]) -> Vec<Grouping> {
    let pairs = trace.devices.iter().zip(histories);
    pairs.map(|(device, history)| Grouping::build(trace, device, history, GroupBy::Line)).collect()
}

fn perfetto(trace: &Trace, histories: &[History]) -> Vec<u8> {
    let groupings = groupings(trace, histories);
    let devices: Vec<_> = trace
        .devices
        .iter()
        .zip(histories)
        .zip(&groupings)
        .map(|((device, history), grouping)| (device, history, grouping))
        .collect();
    let mut written = Vec::new();
    write_perfetto(trace, &devices, &mut written).unwrap();
    written
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap()
}

/// Both exports of a recording against its history.
fn check(path: &Path) {
    let trace = read(path);
    let histories = histories(&trace);
    let packed = pprof(&trace, &histories, &[]);
    assert_eq!(packed, pprof(&trace, &histories, &[]), "the same trace gives the same bytes");
    let profile = Profile::read(&packed);
    let ends: Vec<Moment> = histories.iter().map(|history| Moment(history.events)).collect();
    let at_end = Profile::read(&pprof(&trace, &histories, &ends));
    let bytes = perfetto(&trace, &histories);
    assert_eq!(bytes, perfetto(&trace, &histories), "the same trace gives the same bytes");
    let timeline = Timeline::read(&bytes);
    for ((device, history), grouping) in
        trace.devices.iter().zip(&histories).zip(groupings(&trace, &histories))
    {
        check_sums(device.device.0, history, &profile, &at_end);
        check_counters(&trace, device, history, &grouping, &timeline);
        check_slices(&trace, device, history, &timeline);
    }
}

fn check_sums(device: u32, history: &History, profile: &Profile, at_end: &Profile) {
    let rows = &history.allocations;
    let total: u64 = rows.block_bytes.iter().sum();
    let live = |moment| (0..rows.len()).filter(|&row| rows.is_allocated_at(row, moment)).count() as i64;
    let peak = history.peaks.allocated;
    assert_eq!(
        profile.sums(device),
        [signed(peak.bytes), live(peak.moment), signed(total), rows.len() as i64],
        "device {device}"
    );
    assert_eq!(at_end.sums(device)[0], signed(history.end.allocated_bytes));
    assert_eq!(at_end.sums(device)[1], live(Moment(history.events)));
}

fn check_counters(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    timeline: &Timeline,
) {
    let root = format!("GPU {}", device.device.0);
    let root = &timeline.tracks.iter().find(|track| track.path.starts_with(&root)).unwrap().path;
    let peaks = history.peaks;
    for (name, peak, end) in [
        ("requested", peaks.requested, history.end.requested_bytes),
        ("allocated", peaks.allocated, history.end.allocated_bytes),
        ("active", peaks.active, history.end.active_bytes),
        ("reserved", peaks.reserved, history.end.reserved_bytes),
    ] {
        let path = format!("{root} / {name} bytes");
        assert_eq!(timeline.maximum(&path), Some(signed(peak.bytes)), "{path}");
        let points = &timeline.named(&path).next().unwrap().points;
        assert_eq!(points.last().unwrap().1, signed(end), "{path} at the end");
        assert!(points.len() <= 4 * 4001);
        let named = format!("peak of {name} bytes");
        let track = timeline.named(&format!("{root} / peaks")).next().unwrap().clone();
        let instant = track.slices.iter().find(|slice| slice.name.starts_with(&named)).unwrap();
        assert_eq!(instant.numbers["bytes"], signed(peak.bytes));
        // Where a recording contradicts itself, the height of a peak is certain, its first moment is not.
        let is_at = points.contains(&(instant.begin, signed(peak.bytes)));
        assert!(is_at || !history.warnings.is_empty(), "{path}: {peak:?} at {}", instant.begin);
    }
    let table = lines(trace, device, history, grouping, None).unwrap();
    let holding = table.entries.iter().filter(|entry| entry.figures.own_peak_bytes > 0);
    for entry in holding.take(LINES_SHOWN) {
        let path = format!("{root} / held by line / {}", grouping.keys[entry.group as usize].label(trace));
        assert_eq!(timeline.maximum(&path), Some(signed(entry.figures.own_peak_bytes)), "{path}");
    }
}

fn check_slices(trace: &Trace, device: &DeviceTrace, history: &History, timeline: &Timeline) {
    let root = format!("GPU {}", device.device.0);
    let under = |name: &str| -> Vec<_> {
        let tracks = timeline.tracks.iter();
        let wanted = tracks.filter(|track| track.path.starts_with(&root) && track.path.ends_with(name));
        wanted.flat_map(|track| track.slices.clone()).collect()
    };
    let table = steps(trace, device, history);
    let shown = under(" / steps");
    assert_eq!(shown.len(), table.rows.len());
    for (slice, step) in shown.iter().zip(&table.rows) {
        assert_eq!(slice.name, format!("step {}", step.name));
        assert_eq!(slice.numbers["peak_allocated_bytes"], signed(step.peak_allocated.bytes));
        assert_eq!(slice.numbers["growth_bytes"], step.growth_bytes);
        assert!(slice.begin <= slice.end);
    }
    let failed = under(" / out of memory");
    assert_eq!(failed.len(), history.ooms.len());
    for (slice, oom) in failed.iter().zip(&history.ooms) {
        assert_eq!(slice.numbers["requested_bytes"], signed(oom.size));
        assert_eq!(slice.numbers["allocated_bytes"], signed(oom.usage.allocated_bytes));
        assert_eq!(slice.stack.len(), trace.stacks.get(oom.stack).len().min(129));
    }
    let largest = under(" / largest allocations");
    let waiting = history.allocations.initially_pending.len();
    assert_eq!(largest.len(), (history.allocations.len() - waiting).min(LARGEST_ALLOCATIONS));
    assert!(largest.iter().all(|slice| slice.numbers["block_bytes"] >= slice.numbers["requested_bytes"]));
}

#[test]
fn a_training_run_adds_up() {
    check(&recording("torch", "gpt"));
}

#[test]
fn a_long_run_keeps_its_peaks() {
    check(&recording("torch", "varlen.default"));
}

#[test]
fn failures_streams_and_ranges_are_there() {
    for name in ["oom", "streams", "annotated", "ring"] {
        check(&recording("torch", name));
    }
}

#[test]
fn every_device_of_a_file_has_its_own_tracks_and_sums() {
    let path = recording("faults", "foreign_device");
    assert!(read(&path).devices.len() > 1);
    check(&path);
}

#[test]
fn recordings_of_others_are_written_whatever_they_lack() {
    for path in recordings("public") {
        check(&path);
    }
}

#[test]
fn ranges_of_the_program_are_slices() {
    let trace = read(&recording("torch", "annotated"));
    let timeline = Timeline::read(&perfetto(&trace, &histories(&trace)));
    let ranges: Vec<_> =
        timeline.named("program / record_function").flat_map(|track| &track.slices).collect();
    let begun = trace.annotations.iter().filter(|range| range.begins && range.time_us != NO_TIME).count();
    assert!(begun > 0);
    assert_eq!(ranges.len(), begun);
    assert!(ranges.iter().all(|slice| !slice.name.is_empty() && slice.begin <= slice.end));
}

#[test]
fn what_the_emitter_marked_is_there_too() {
    let path = testdata("emitter").join("gpt.msgpack");
    check(&path);
    let trace = read(&path);
    let timeline = Timeline::read(&perfetto(&trace, &histories(&trace)));
    let phases = timeline.named("program / phases").map(|track| track.slices.len()).sum::<usize>();
    let marks = trace.marks.iter().filter(|mark| mark.kind == MarkKind::Phase);
    let begun = marks.filter(|mark| mark.begins == Some(true)).count();
    assert!(begun > 0);
    assert_eq!(phases, begun);
}

/// Two stacks, one failure, and everything a person may have named.
fn small(file: &str, function: &str) -> Trace {
    let mut trace = TraceBuilder::new()
        .segment_alloc(A, 4 << 20)
        .stack(&[(file, 7, function), ("main.py", 1, "main")])
        .alloc(A, 1 << 20)
        .stack(&[(file, u64::MAX, "")])
        .alloc(A + (1 << 20), 1 << 20)
        .free(A, 1 << 20)
        .oom(30 << 20, 1 << 20)
        .build();
    let name = trace.strings.intern(function);
    let range = Annotation { name, begins: true, device: DeviceId(0), time_us: 1_000_000 };
    trace.annotations = vec![range, Annotation { begins: false, time_us: 1_000_040, ..range }];
    trace.process.torch_version = Some(function.to_owned());
    trace.process.devices =
        vec![DeviceFacts { name: function.to_owned(), total_bytes: None, device: DeviceId(0) }];
    let mark = |kind, time_us| Mark { kind, name: function.to_owned(), time_us, begins: None };
    trace.marks = vec![mark(MarkKind::User, 1_000_010), mark(MarkKind::Step, 1_000_020)];
    trace
}

#[test]
fn hostile_names_are_text_of_one_line() {
    let long = "é".repeat(10_000);
    for name in ["a\u{1b}[31m\n\u{202e}py", "</script><img src=x onerror=alert(1)>", &long] {
        let trace = small(name, name);
        let histories = histories(&trace);
        let profile = Profile::read(&pprof(&trace, &histories, &[]));
        assert!(!profile.string_table.iter().any(|text| text.contains(is_invisible)));
        let timeline = Timeline::read(&perfetto(&trace, &histories));
        let slices = || timeline.tracks.iter().flat_map(|track| &track.slices);
        let texts = timeline.tracks.iter().map(|track| &track.path).chain(slices().map(|slice| &slice.name));
        assert!(
            !texts.chain(slices().flat_map(|slice| &slice.stack)).any(|text| text.contains(is_invisible))
        );
        let shown = visible(name);
        assert!(profile.string_table.iter().any(|text| *text == shown));
        assert!(slices().any(|slice| slice.stack.contains(&format!("{shown}:7 {shown}"))), "{shown}");
        assert!(slices().any(|slice| slice.name == shown), "the range");
    }
}

#[test]
fn a_stack_is_written_innermost_first_and_an_unknown_line_as_none() {
    let trace = small("train.py", "step");
    let histories = histories(&trace);
    let profile = Profile::read(&pprof(&trace, &histories, &[]));
    let stacks: Vec<Vec<String>> = profile
        .sample
        .iter()
        .map(|sample| sample.location_id.iter().map(|&id| profile.place(id)).collect())
        .collect();
    assert_eq!(stacks, [vec!["step train.py:7", "main main.py:1"], vec!["[unknown] train.py:0"]]);
    let timeline = Timeline::read(&perfetto(&trace, &histories));
    let largest: Vec<_> =
        timeline.tracks.iter().filter(|track| track.path.ends_with("largest allocations")).collect();
    let stack = |name: &str| {
        let mut slices = largest.iter().flat_map(|track| &track.slices);
        slices.find(|slice| slice.name == name).unwrap().stack.clone()
    };
    assert_eq!(stack("train.py:7 step"), ["train.py:7 step", "main.py:1 main"]);
    let failed = timeline.tracks.iter().find(|track| track.path.ends_with("out of memory")).unwrap();
    assert_eq!(failed.slices[0].name, "OOM: 30.0 MiB");
}

#[test]
fn without_times_events_are_counted_and_the_track_says_so() {
    let mut trace = small("train.py", "step");
    trace.devices[0].events.times_us.fill(NO_TIME);
    let timeline = Timeline::read(&perfetto(&trace, &histories(&trace)));
    assert!(timeline.tracks[0].path.contains("time is the event number"), "{}", timeline.tracks[0].path);
    let reserved = timeline.tracks.iter().find(|track| track.path.ends_with("reserved bytes")).unwrap();
    assert_eq!(reserved.points, [(0, 0), (1000, 4 << 20)]);
    assert!(!timeline.tracks.iter().any(|track| track.path.starts_with("program")), "nothing to place");
}

#[test]
fn nothing_recorded_is_a_file_without_tracks() {
    let trace = Trace::default();
    assert!(Profile::read(&pprof(&trace, &[], &[])).sample.is_empty());
    assert!(Timeline::read(&perfetto(&trace, &[])).tracks.is_empty());
}
