//! What pictures show equals what the report says, and the pictures of the documentation are what is drawn.

use memlab::analysis::{self, Options};
use memlab::report::{
    DeviceReport, FlameKind, Fragmentation, MapState, Pictures, TraceReport, picture_svg, steps_svg,
};

use crate::inputs::{analyzed_path, testdata};

fn report(path: &str) -> TraceReport {
    let (folder, name) = path.rsplit_once('/').expect("a folder");
    let trace = &analyzed_path(&testdata(folder).join(name)).trace;
    analysis::analyze(path, trace, &Options { with_pictures: true, ..Options::default() }).expect("a report")
}

const RECORDINGS: [&str; 6] = [
    "torch/gpt.pickle.gz",
    "torch/oom.pickle.gz",
    "torch/streams.pickle",
    "torch/varlen.expandable.pickle.gz",
    "gpu/fragmentation_oom.pickle",
    "gpu/graph_pools.pickle",
];

fn each(check: impl Fn(&str, &DeviceReport, &Pictures)) {
    for path in RECORDINGS {
        for device in &report(path).devices {
            check(path, device, &device.pictures);
        }
    }
}

/// Bytes of the blocks in `state`, in segments that are wholly free or not.
fn bytes(pictures: &Pictures, state: MapState, wholly_free: bool) -> u64 {
    let segments = pictures.segments.segments.iter();
    let segments = segments
        .filter(|segment| segment.blocks.iter().all(|block| block.state == MapState::Free) == wholly_free);
    segments.flat_map(|s| &s.blocks).filter(|block| block.state == state).map(|block| block.bytes).sum()
}

#[test]
fn the_segments_add_up_to_the_reports_figures() {
    each(|path, device, pictures| {
        let at: &Fragmentation =
            device.fragmentation.at_oom.as_ref().unwrap_or(&device.fragmentation.at_peak);
        let figures = [
            bytes(pictures, MapState::InUse, false),
            bytes(pictures, MapState::Pending, false),
            bytes(pictures, MapState::Free, false),
            bytes(pictures, MapState::Free, true),
        ];
        let said = [at.allocated_bytes, at.pending_free_bytes, at.stranded_bytes, at.releasable_bytes];
        assert_eq!(figures, said, "{path}");
        assert_eq!(figures.iter().sum::<u64>(), at.reserved_bytes, "{path}");
        assert_eq!(pictures.segments.asked_bytes.is_some(), !device.ooms.is_empty(), "{path}");
    });
}

#[test]
fn the_flame_graph_is_what_was_live_at_the_peak() {
    each(|path, device, pictures| {
        let flame = &pictures.flame;
        assert_eq!(flame.total_bytes, device.peak.allocated_bytes, "{path}");
        let outer: u64 = flame.boxes.iter().filter(|one| one.level == 0).map(|one| one.bytes).sum();
        assert!(outer <= flame.total_bytes && flame.total_bytes - outer < flame.least_bytes, "{path}");
        // A line that allocates by itself is on some stack with what it holds at least, unless that was inferred.
        for (rank, line) in device.lines.iter().enumerate().take(10) {
            let own = line.figures.held_at_peak_bytes - line.figures.inferred_bytes;
            let rank = FlameKind::Line(Some(rank as u32));
            let drawn: u64 = flame.boxes.iter().filter(|one| one.kind == rank).map(|one| one.bytes).sum();
            assert!(
                drawn + 2 * flame.least_bytes >= own || own < 8 * flame.least_bytes,
                "{path}: {}",
                line.label()
            );
        }
        for one in &flame.boxes {
            assert!(one.level < 40 && one.begin_bytes + one.bytes <= flame.total_bytes, "{path}: {one:?}");
        }
    });
}

#[test]
fn the_steps_are_those_of_the_report_and_their_lines_add_up() {
    each(|path, device, pictures| {
        let (curve, rows) = (&pictures.steps, &device.steps.rows);
        assert_eq!((curve.steps, curve.columns.len()), (device.steps.count, rows.len()), "{path}");
        for (at, (column, row)) in curve.columns.iter().zip(rows).enumerate() {
            assert_eq!(column.peak_allocated_bytes, row.peak_allocated_bytes, "{path}");
            assert_eq!(column.end_allocated_bytes, row.end_allocated_bytes, "{path}");
            let held: u64 = curve.bands.iter().map(|band| band[at]).sum();
            assert_eq!(held, row.end_allocated_bytes, "{path}, step {at}");
        }
    });
}

#[test]
fn lines_keep_their_rank_in_every_picture_whatever_top_says() {
    let path = "torch/gpt.pickle.gz";
    let whole = report(path);
    let trace = &analyzed_path(&testdata("torch").join("gpt.pickle.gz")).trace;
    let options = Options { with_pictures: true, top: Some(2), ..Options::default() };
    let cut = analysis::analyze(path, trace, &options).expect("a report");
    let (whole, cut) = (&whole.devices[0], &cut.devices[0]);
    let names: Vec<String> = whole.lines.iter().map(memlab::report::LineRow::label).collect();
    assert_eq!(whole.pictures.line_names, names);
    assert_eq!(cut.pictures.line_names, names);
    assert_eq!(cut.lines.len(), 2);
    let ranks = &whole.timeline.band_ranks;
    assert_eq!(ranks.len() + 2, whole.timeline.band_names.len());
    for (rank, name) in ranks.iter().zip(&whole.timeline.band_names) {
        assert_eq!(names[*rank as usize], *name);
    }
}

#[test]
fn without_steps_there_is_no_picture_of_them() {
    let report = report("gpu/fragmentation_oom.pickle");
    assert_eq!(report.devices[0].steps.count, 0);
    assert!(steps_svg(&report, &report.devices[0]).is_none());
}

/// `MEMLAB_UPDATE_DOCS=1` writes them anew.
#[test]
fn the_pictures_of_the_documentation_are_what_is_drawn() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    let drawn = [
        ("timeline", "gpu/fragmentation_oom.pickle"),
        ("segments", "gpu/fragmentation_oom.pickle"),
        ("flamegraph", "torch/gpt.pickle.gz"),
        ("steps", "torch/varlen.default.pickle.gz"),
        ("fragmentation", "torch/varlen.default.pickle.gz"),
    ];
    for (kind, path) in drawn {
        let report = report(path);
        let svg = picture_svg(kind, &report, &report.devices[0]).expect("a picture");
        assert!(svg.len() < 100_000, "{kind}: {} bytes", svg.len());
        let file = folder.join(format!("{kind}.svg"));
        if std::env::var_os("MEMLAB_UPDATE_DOCS").is_some() {
            std::fs::write(&file, &svg).expect("a writable folder");
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(there == svg, "docs/pictures/{kind}.svg is not what is drawn from {path}");
    }
}
