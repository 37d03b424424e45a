//! Comparisons for the renderers' tests: an ordinary one, and one with hostile names.

use super::types::{
    CategoryDiff, Change, DeviceDiff, DiffInput, DiffPlace, DiffReport, FactDiff, FiguresDiff, FindingDiff,
    FindingsDiff, FragmentationFigures, LibraryDiff, LineDiff, LinesSum, ModuleDiff, OomFigures, Sides,
    StepFigures,
};
use crate::report::types::{Four, Timeline, TimelineMark};

const MIB: u64 = 1 << 20;

fn change(before: u64, after: u64) -> Change {
    Change { before: Some(before * MIB), after: Some(after * MIB) }
}

fn figures(before: u64, after: u64) -> FiguresDiff {
    let held = change(before, after);
    FiguresDiff {
        before_bytes: held.before,
        after_bytes: held.after,
        delta_bytes: held.delta(),
        own_peak_bytes: held,
        total_bytes: change(before * 3, after * 3 + 1),
        allocations: Change { before: Some(3), after: Some(3) },
        live_at_end_bytes: change(0, 0),
    }
}

fn line(file: &str, numbers: (Option<u64>, Option<u64>), function: &str, held: (u64, u64)) -> LineDiff {
    let place = |line: u64| DiffPlace { file: Some(file.to_owned()), line: Some(line) };
    let places = Sides { before: numbers.0.map(place), after: numbers.1.map(place) };
    LineDiff {
        file: Some(file.to_owned()),
        line: numbers.1.or(numbers.0),
        function: Some(function.to_owned()),
        figures: figures(held.0, held.1),
        moved: numbers.0.is_some() && numbers.1.is_some() && numbers.0 != numbers.1,
        places,
    }
}

fn four(allocated: u64, reserved: u64) -> Four<Option<u64>> {
    Four {
        requested_bytes: Some((allocated - 1) * MIB),
        allocated_bytes: Some(allocated * MIB),
        active_bytes: Some(allocated * MIB),
        reserved_bytes: Some(reserved * MIB),
    }
}

fn timeline(peak: u64) -> Timeline {
    let samples: Vec<u64> = (0..=10).collect();
    let bytes = |factor: u64| samples.iter().map(|&x| x.min(10 - x) * factor * peak * MIB / 5).collect();
    Timeline {
        x_is_time: true,
        x: samples.iter().map(|x| x * 100_000).collect(),
        allocated: bytes(1),
        active: bytes(1),
        reserved: bytes(2),
        x_end: 1_000_000,
        events_per_sample: 1,
        marks: vec![TimelineMark { x: 500_000, kind: "peak", label: "peak".to_owned() }],
        ..Timeline::default()
    }
}

fn step(median: u64, growth: i64) -> StepFigures {
    StepFigures {
        source: "detected".to_owned(),
        count: 12,
        median_peak_bytes: Some(median * MIB),
        max_peak_bytes: Some((median + 2) * MIB),
        median_growth_bytes: Some(growth),
    }
}

fn libraries() -> LibraryDiff {
    let llama = "/opt/venv/lib/python3.12/site-packages/transformers/models/llama/modeling_llama.py";
    LibraryDiff {
        rows: vec![
            line(llama, (Some(170), Some(175)), "forward", (700, 110)),
            line(llama, (None, Some(388)), "forward", (0, 4)),
            line(llama, (Some(66), Some(66)), "forward", (9, 9)),
        ],
        rows_unchanged: 5,
        rows_left_out: 0,
        grown: LinesSum { count: 1, delta_bytes: 4 << 20 },
        shrunk: LinesSum { count: 1, delta_bytes: -(590 << 20) },
        no_library: figures(300, 336),
    }
}

fn device() -> DeviceDiff {
    let held = change(900, 300);
    DeviceDiff {
        indices: Sides { before: Some(0), after: Some(0) },
        peak: Sides { before: Some(four(1_000, 1_600)), after: Some(four(450, 1_000)) },
        end: Sides { before: Some(four(200, 1_600)), after: Some(four(200, 1_000)) },
        lines: vec![
            line("train.py", (Some(10), Some(12)), "step", (900, 300)),
            line("model.py", (None, Some(88)), "forward", (0, 40)),
            line("model.py", (Some(70), None), "forward", (20, 0)),
            line("data.py", (Some(5), Some(5)), "load", (7, 7)),
        ],
        lines_unchanged: 3,
        lines_moved: 1,
        grown: LinesSum { count: 1, delta_bytes: 40 << 20 },
        shrunk: LinesSum { count: 2, delta_bytes: -(620 << 20) },
        files_moved: vec![Sides { before: "/w/train.py".to_owned(), after: "train.py".to_owned() }],
        unattributed: figures(80, 103),
        library_lines: Some(libraries()),
        categories: Some(vec![CategoryDiff {
            category: "activation".to_owned(),
            before_bytes: held.before,
            after_bytes: held.after,
            delta_bytes: held.delta(),
            ..CategoryDiff::default()
        }]),
        modules: Some(vec![ModuleDiff {
            module: Some("layers.0".to_owned()),
            before_bytes: held.before,
            after_bytes: held.after,
            delta_bytes: held.delta(),
            ..ModuleDiff::default()
        }]),
        fragmentation: Sides {
            before: Some(FragmentationFigures {
                unused_bytes: 600 * MIB,
                stranded_bytes: Some(MIB),
                releasable_bytes: None,
                ratio: 0.375,
            }),
            after: Some(FragmentationFigures {
                unused_bytes: 550 * MIB,
                stranded_bytes: Some(MIB),
                releasable_bytes: None,
                ratio: 0.55,
            }),
        },
        steps: Sides { before: Some(step(990, 1 << 20)), after: Some(step(440, 0)) },
        ooms: Sides {
            before: Some(vec![OomFigures {
                requested_bytes: Some(64 * MIB),
                verdict: Some("fragmentation".to_owned()),
                ..OomFigures::default()
            }]),
            after: Some(Vec::new()),
        },
        timelines: Sides { before: timeline(1_000), after: timeline(450) },
        ..DeviceDiff::default()
    }
}

/// A run that got smaller and one line moved.
pub(super) fn diff() -> DiffReport {
    let input = |path: &str| DiffInput {
        path: path.to_owned(),
        kind: "trace",
        format: Some("torch-snapshot".to_owned()),
        events: Some(9_000),
        complete: Some(true),
    };
    let finding = FindingDiff {
        rule: "fragmentation".to_owned(),
        severity: "error".to_owned(),
        title: "512.0 MiB were free, but in pieces".to_owned(),
        bytes: Some(512 * MIB),
        device: Some(0),
        line: Some("train.py:10 step".to_owned()),
    };
    DiffReport {
        schema: 1,
        tool: "memlab 0.1.0".to_owned(),
        before: input("runs/before.pickle"),
        after: input("runs/after.pickle"),
        devices: vec![device()],
        findings: FindingsDiff { vanished: vec![finding], ..FindingsDiff::default() },
        settings: vec![FactDiff {
            name: "PYTORCH_CUDA_ALLOC_CONF".to_owned(),
            before: None,
            after: Some("expandable_segments:True".to_owned()),
        }],
        notes: vec!["BEFORE is not whole: its figures are those of the part that was recorded".to_owned()],
        ..DiffReport::default()
    }
}

/// The same with names that are markup, control sequences and very long.
pub(super) fn hostile() -> DiffReport {
    let name =
        format!("<script>alert(1)</script>\"'`|[l](javascript:1)\u{1b}[31m\u{202e}\n{}", "x".repeat(10_000));
    let mut report = diff();
    (report.before.path, report.after.path) = (name.clone(), name.clone());
    (report.settings[0].before, report.settings[0].name) = (Some(name.clone()), name.clone());
    report.notes.push(name.clone());
    report.findings.vanished[0].title.clone_from(&name);
    let device = &mut report.devices[0];
    let within = device.library_lines.iter_mut().flat_map(|libraries| &mut libraries.rows);
    for line in device.lines.iter_mut().chain(within) {
        (line.file, line.function) = (Some(name.clone()), Some(name.clone()));
        if let Some(place) = &mut line.places.before {
            place.file = Some("<b>bold".to_owned() + &name);
        }
    }
    device.modules.iter_mut().flatten().for_each(|row| row.module = Some(name.clone()));
    device.categories.iter_mut().flatten().for_each(|row| row.category.clone_from(&name));
    device.files_moved[0].before.clone_from(&name);
    device.ooms.before.iter_mut().flatten().for_each(|oom| oom.verdict = Some(name.clone()));
    device.steps.before.iter_mut().for_each(|steps| steps.source.clone_from(&name));
    report
}
