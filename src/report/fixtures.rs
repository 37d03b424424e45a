//! Fixed reports for the tests of all renderers: an OOM by fragmentation, a normal run, a late start, and
//! one with hostile names. Figures add up as those of a real run do.

use super::categories::{CategoryTable, CategoryTableRow};
use super::types::*;

const MIB: u64 = 1 << 20;

/// A line of `held` MiB at the peak.
fn line(file: &str, number: u64, function: &str, held: u64, inferred: u64) -> LineRow {
    LineRow {
        file: Some(file.to_owned()),
        line: Some(number),
        function: Some(function.to_owned()),
        active_peak_on_stack_bytes: held * MIB + 40 * MIB,
        figures: LineFigures {
            held_at_peak_bytes: held * MIB,
            own_peak_bytes: held * MIB + MIB / 2,
            inferred_bytes: inferred * MIB,
            total_bytes: held * MIB * 40,
            allocations: held * 3 + 1,
            live_at_end_bytes: held / 2 * MIB,
        },
        ..LineRow::default()
    }
}

fn four(requested: u64, allocated: u64, active: u64, reserved: u64) -> Four<u64> {
    Four {
        requested_bytes: requested,
        allocated_bytes: allocated,
        active_bytes: active,
        reserved_bytes: reserved,
    }
}

fn fragmentation(event: u64, reserved: u64, active: u64, stranded: u64) -> Fragmentation {
    let pending = 2 * MIB;
    Fragmentation {
        event: Some(event),
        reserved_bytes: reserved,
        active_bytes: active,
        allocated_bytes: active - pending,
        requested_bytes: active - pending - 5_120,
        rounding_bytes: 5_120,
        pending_free_bytes: pending,
        releasable_bytes: reserved - active - stranded,
        stranded_bytes: stranded,
        stranded_blocks: 12,
        largest_free_block_bytes: stranded / 2,
        largest_stranded_block_bytes: stranded / 2,
        ratio: 1.0 - active as f64 / reserved as f64,
        by_cause: ByCause {
            rounding_bytes: 5_120,
            pending_free_bytes: pending,
            split_remainder_bytes: stranded - MIB,
            other_stream_bytes: MIB,
            releasable_cache_bytes: reserved - active - stranded,
            ..ByCause::default()
        },
        main_stream: 0,
        pins: vec![
            PinRow {
                file: Some("data/loader.py".to_owned()),
                line: Some(88),
                function: Some("collate".to_owned()),
                blocks: 24,
                block_bytes: 24 * 65_536,
                stranded_bytes: stranded,
                sole_stranded_bytes: stranded / 4 * 3,
            },
            PinRow { blocks: 2, block_bytes: 4 * MIB, stranded_bytes: stranded / 4, ..PinRow::default() },
        ],
    }
}

/// A device without OOM: 177.3 MiB of 274 MiB.
fn device() -> DeviceReport {
    let at_peak = fragmentation(1_017, 287_309_824, 187_959_296, 61_000_192);
    DeviceReport {
        device: 0,
        name: Some("NVIDIA H200".to_owned()),
        total_bytes: Some(150_120_103_936),
        events: 2_048,
        peak: four(185_857_415, 185_862_144, 187_959_296, 287_309_824),
        peak_event: four_events(1_011, 1_011, 1_012, 1_017),
        end: four(70_678_688, 70_682_624, 70_682_624, 287_309_824),
        initial: Four::default(),
        history: HistoryRow { from_the_start: true, ..HistoryRow::default() },
        fragmentation: FragmentationRow {
            at_end: fragmentation(2_047, 287_309_824, 72_779_776, 30_000_128),
            at_peak,
            at_oom: None,
        },
        group_by: "line".to_owned(),
        line_rule: "A line is the innermost frame outside installed packages and the interpreter.".to_owned(),
        lines: vec![
            line("train.py", 100, "step", 80, 30),
            line("model/block.py", 41, "forward", 48, 0),
            line("model/block.py", 43, "forward", 24, 0),
            line("train.py", 12, "<module>", 12, 0),
            line("data/loader.py", 88, "collate", 6, 0),
            line("train.py", 61, "loss", 2, 0),
            line("train.py", 77, "evaluate", 0, 0),
        ],
        lines_left_out: 0,
        unattributed: LineFigures {
            held_at_peak_bytes: 185_862_144 - 172 * MIB,
            own_peak_bytes: 9 * MIB,
            inferred_bytes: 0,
            total_bytes: 90 * MIB,
            allocations: 211,
            live_at_end_bytes: MIB,
        },
        categories: categories(185_862_144, None),
        ooms: Vec::new(),
        steps: steps(),
        pools: pools(),
        modules: None,
        census: None,
        outside: None,
        self_check: None,
        what_would_help: None,
        timeline: super::timeline_fixture::training_run(),
        pictures: super::picture_fixture::small(),
    }
}

/// Shares of `held` bytes; the remainder is unknown.
fn categories(held: u64, at_oom: Option<u64>) -> CategoryTable {
    let parts = [("activation", 5), ("optimizer_state", 2), ("parameter", 1), ("gradient", 1)];
    let row = |category: &str, held_at_peak_bytes: u64| CategoryTableRow {
        category: category.to_owned(),
        held_at_peak_bytes,
        held_at_oom_bytes: at_oom.map(|_| held_at_peak_bytes),
        live_at_end_bytes: held_at_peak_bytes / 2,
        own_peak_bytes: held_at_peak_bytes + MIB,
        allocations: 40,
        ..CategoryTableRow::default()
    };
    let mut rows: Vec<_> =
        parts.iter().map(|&(category, tenths)| row(category, held / 10 * tenths)).collect();
    let told: u64 = rows.iter().map(|row| row.held_at_peak_bytes).sum();
    rows.push(row("unknown", held - told));
    CategoryTable { source: "derived".to_owned(), rule: "Derived from phases and lives.".to_owned(), rows }
}

/// 40 steps; the 23rd has the highest peak.
fn steps() -> StepsRow {
    let row = |step: u64| StepRow {
        name: format!("ProfilerStep#{step}"),
        begin_event: 8 + step * 51,
        end_event: 59 + step * 51,
        begin_allocated_bytes: 60 * MIB + step * 65_536,
        peak_allocated_bytes: if step == 22 { 185_862_144 } else { 170 * MIB },
        peak_event: Some(40 + step * 51),
        end_allocated_bytes: 60 * MIB + (step + 1) * 65_536,
        growth_bytes: 65_536,
    };
    StepsRow { source: "annotations".to_owned(), count: 40, rows: (0..40).map(row).collect() }
}

fn four_events(requested: u64, allocated: u64, active: u64, reserved: u64) -> Four<Option<u64>> {
    Four {
        requested_bytes: Some(requested),
        allocated_bytes: Some(allocated),
        active_bytes: Some(active),
        reserved_bytes: Some(reserved),
    }
}

fn pools() -> Vec<PoolRow> {
    let pool = |stream, kind, segments, reserved: u64, active: u64| PoolRow {
        stream,
        pool: (0, u64::from(stream != 0)),
        kind,
        segments,
        reserved_bytes: reserved,
        active_bytes: active,
        releasable_bytes: 0,
        stranded_bytes: reserved - active,
    };
    vec![
        pool(0, "large", 9, 240 * MIB, 170 * MIB),
        pool(0, "small", 4, 8 * MIB, 7 * MIB),
        pool(94_214_712_312_832, "large", 1, 26 * MIB, 2 * MIB),
    ]
}

fn trace(device: DeviceReport) -> TraceReport {
    TraceReport {
        driver: None,
        reduced: None,
        path: "runs/snapshot.pickle".to_owned(),
        format: "torch-snapshot",
        events: device.events,
        complete: true,
        warnings: Vec::new(),
        allocator_conf: String::new(),
        process: vec![("python".to_owned(), "3.12.4".to_owned()), ("torch".to_owned(), "2.9.0".to_owned())],
        devices: vec![device],
        findings: Vec::new(),
    }
}

fn report(trace: TraceReport) -> Report {
    Report { schema: SCHEMA, tool: "memlab 0.1.0".to_owned(), traces: vec![trace] }
}

/// A run that went well.
pub(super) fn normal() -> Report {
    report(trace(device()))
}

/// A run that failed for fragmentation, with two findings.
pub(super) fn oom() -> Report {
    let mut device = device();
    let at_oom = fragmentation(2_047, 1_073_741_824, 612_368_384, 461_373_440);
    device.peak = four(610_000_000, 610_271_232, 612_368_384, 1_073_741_824);
    device.end = device.peak;
    device.lines[0] = line("train.py", 100, "step", 360, 120);
    device.lines[1] = line("model/block.py", 41, "forward", 160, 0);
    device.unattributed.held_at_peak_bytes = 610_271_232 - 564 * MIB;
    device.categories = categories(610_271_232, Some(2_047));
    device.total_bytes = Some(1_200 * MIB);
    device.ooms = vec![oom_row(&at_oom)];
    device.fragmentation.at_peak = at_oom.clone();
    device.fragmentation.at_oom = Some(at_oom);
    device.timeline = super::timeline_fixture::failed_run();
    device.pictures = super::picture_fixture::at_oom();
    let mut trace = trace(device);
    trace.allocator_conf = "max_split_size_mb:512".to_owned();
    trace.findings = findings();
    report(trace)
}

fn oom_row(at: &Fragmentation) -> OomRow {
    OomRow {
        event: 2_047,
        requested_bytes: 400 * MIB,
        device_free_bytes: Some(62 * MIB),
        verdict: "fragmentation".to_owned(),
        explanation: vec![
            "The request needs 400.0 MiB in one piece; the driver had 62.0 MiB.".to_owned(),
            "440.0 MiB are free in reserved segments, 40.0 MiB more than asked.".to_owned(),
            "The largest free block has 220.0 MiB: no block can serve the request.".to_owned(),
        ],
        largest_free_block_bytes: 220 * MIB,
        reserved_bytes: at.reserved_bytes,
        active_bytes: at.active_bytes,
        allocated_bytes: at.allocated_bytes,
        pending_free_bytes: at.pending_free_bytes,
        line: Some("train.py:100 step".to_owned()),
        ..OomRow::default()
    }
}

fn findings() -> Vec<FindingRow> {
    let mut evidence = serde_json::Map::new();
    evidence.insert("largest_free_block_bytes".to_owned(), (220 * MIB).into());
    let finding = |rule: &str, severity, title: &str, bytes, remedy: &str| FindingRow {
        rule: rule.to_owned(),
        severity,
        title: title.to_owned(),
        bytes,
        device: 0,
        lines: vec![FindingLine {
            file: "data/loader.py".to_owned(),
            line: 88,
            function: "collate".to_owned(),
            bytes: 24 * 65_536,
        }],
        evidence: evidence.clone(),
        remedy: remedy.to_owned(),
    };
    vec![
        finding(
            "rounding-waste",
            "info",
            "Rounding takes 5.0 KiB",
            5_120,
            "Nothing to gain here; see `memlab whatif`.",
        ),
        finding(
            "fragmentation",
            "error",
            "440.0 MiB are free but no block serves 400.0 MiB",
            440 * MIB,
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate what `collate` keeps before the first step.",
        ),
    ]
}

/// A ring buffer that lost its beginning, cut short while it was written.
pub(super) fn late() -> Report {
    let mut device = device();
    device.initial = four(50_000_000, 50_331_648, 50_331_648, 104_857_600);
    device.history = HistoryRow {
        from_the_start: false,
        initial_allocations: 321,
        uncertain_allocations: 7,
        uncertain_bytes: 3 * MIB,
    };
    device.peak_event.reserved_bytes = None;
    device.fragmentation.at_peak.event = None;
    device.steps = StepsRow { source: "none".to_owned(), ..StepsRow::default() };
    device.name = None;
    device.total_bytes = None;
    device.timeline = super::timeline_fixture::without_times();
    device.pictures.steps = super::pictures::StepCurve::default();
    let mut trace = trace(device);
    trace.complete = false;
    trace.process.clear();
    trace.warnings = vec![
        WarningRow {
            kind: "free-without-alloc".to_owned(),
            count: 1_204,
            text: "a free names an address that no allocation holds, first at event 17".to_owned(),
        },
        WarningRow {
            kind: "unknown-key".to_owned(),
            count: 1,
            text: "key `vendor|x` is not known".to_owned(),
        },
    ];
    report(trace)
}

/// The failed run as memlab's own recorder would have it.
pub(super) fn recorded() -> Report {
    let mut report = oom();
    report.traces[0].format = "memlab-trace";
    super::recorded_fixture::add(&mut report.traces[0].devices[0]);
    report
}

/// Names that try to be markup, table cells, control sequences.
pub(super) const HOSTILE: &str = "a|b\n<script>alert(1)</script>`\x1b[31m\u{202e}]]>--&.py";

/// A report in which every text of the trace is [`HOSTILE`].
pub(super) fn hostile() -> Report {
    let text = || HOSTILE.to_owned();
    let mut report = recorded();
    let trace = &mut report.traces[0];
    trace.path = text();
    trace.allocator_conf = text();
    trace.process = vec![(text(), text())];
    trace.warnings = vec![WarningRow { kind: text(), count: 1, text: text() }];
    for finding in &mut trace.findings {
        finding.title = text();
        finding.remedy = text();
        finding.lines[0].file = text();
        finding.lines[0].function = text();
        finding.evidence.insert(text(), text().into());
    }
    let device = &mut trace.devices[0];
    super::recorded_fixture::poison(device);
    device.name = Some(text());
    device.group_by = text();
    device.line_rule = text();
    device.categories.source = text();
    device.categories.rule = text();
    for row in &mut device.categories.rows {
        row.category = text();
    }
    device.steps.source = text();
    device.steps.rows[0].name = text();
    for line in &mut device.lines {
        line.file = Some(text());
        line.function = Some(text());
    }
    device.ooms[0].verdict = text();
    device.ooms[0].explanation = vec![text()];
    device.ooms[0].line = Some(text());
    for at in [&mut device.fragmentation.at_peak, &mut device.fragmentation.at_end]
        .into_iter()
        .chain(device.fragmentation.at_oom.as_mut())
    {
        at.pins[0].file = Some(text());
        at.pins[0].function = Some(text());
    }
    device.timeline.band_names = device.timeline.band_names.iter().map(|_| text()).collect();
    for mark in &mut device.timeline.marks {
        mark.label = text();
    }
    super::picture_fixture::poison(&mut device.pictures, HOSTILE);
    report
}

/// `normal` with `count` lines whose names are as long as paths get.
pub(super) fn many_lines(count: u64) -> Report {
    let mut report = recorded();
    let device = &mut report.traces[0].devices[0];
    super::recorded_fixture::repeat(device, count as usize);
    let folder = "a_rather_long_folder_name/".repeat(12);
    device.lines =
        (0..count).map(|n| line(&format!("{folder}{n}.py"), n, &"function_".repeat(20), 1, 0)).collect();
    let pin = device.fragmentation.at_peak.pins[0].clone();
    device.fragmentation.at_peak.pins = vec![pin; count as usize];
    device.ooms = vec![device.ooms[0].clone(); count as usize];
    device.pools = vec![device.pools[0].clone(); count as usize];
    device.categories.rows = vec![device.categories.rows[0].clone(); count as usize];
    report
}
