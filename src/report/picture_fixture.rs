//! Segments, flame graphs and steps for tests, as `analysis` would fill them in: small ones, those of a run that
//! failed, and the densest.

use super::pictures::*;

const MIB: u64 = 1 << 20;

fn block(mib: u64, state: MapState, rank: Option<u32>) -> MapBlock {
    let requested_bytes = if state == MapState::Free { 0 } else { mib * MIB - 5_000 };
    MapBlock { bytes: mib * MIB, requested_bytes, state, rank }
}

fn segment(address: u64, blocks: Vec<MapBlock>) -> MapSegment {
    let bytes = blocks.iter().map(|block| block.bytes).sum();
    MapSegment { address, bytes, blocks, is_small: bytes == 2 * MIB, ..MapSegment::default() }
}

fn names() -> Vec<String> {
    [
        "model/attention/block.py:141 scaled_dot_product",
        "train.py:100 step",
        "model/block.py:43 forward",
        "train.py:61 loss",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain((4..14).map(|n| format!("other.py:{n} f")))
    .collect()
}

/// A pinned segment, a wholly free one, one with a pending block, and small ones.
fn segments() -> SegmentMap {
    use MapState::{Free, InUse, Pending};
    let mut all = vec![
        segment(
            0x7000_0000_0000,
            vec![
                block(40, InUse, Some(0)),
                block(15, Free, None),
                block(1, InUse, Some(3)),
                block(60, Free, None),
            ],
        ),
        segment(0x7100_0000_0000, vec![block(96, Free, None)]),
        segment(
            0x7200_0000_0000,
            vec![block(12, Pending, Some(1)), block(8, InUse, Some(12)), block(20, InUse, None)],
        ),
    ];
    for n in 0..5 {
        all.push(segment(
            0x7300_0000_0000 + n * 2 * MIB,
            vec![block(1, InUse, Some(2)), block(1, Free, None)],
        ));
    }
    SegmentMap {
        event: Some(1_999),
        just_obtained_bytes: Some(96 * MIB),
        segments: all,
        ..SegmentMap::default()
    }
}

fn flame_box(level: u32, begin: u64, mib: u64, label: &str, kind: FlameKind) -> FlameBox {
    let (begin_bytes, bytes) = (begin * MIB, mib * MIB);
    FlameBox { level, begin_bytes, bytes, allocations: mib + 1, label: label.to_owned(), kind }
}

fn flame() -> FlameGraph {
    use FlameKind::{Folded, Library, Line};
    let names = names();
    let boxes = vec![
        flame_box(0, 0, 200, "train.py:7 main", Line(Some(11))),
        flame_box(1, 0, 150, "… 2 to 4 library frames", Folded),
        flame_box(2, 0, 120, &names[0], Line(Some(0))),
        flame_box(
            3,
            0,
            120,
            "/usr/lib/python3/site-packages/torch/nn/functional.py:5504 multi_head",
            Library,
        ),
        flame_box(2, 120, 30, &names[2], Line(Some(2))),
        flame_box(1, 150, 49, &names[1], Line(Some(1))),
        flame_box(1, 199, 1, "… 17 smaller", Folded),
        flame_box(0, 200, 20, "no stack recorded", Folded),
    ];
    FlameGraph { event: Some(1_500), total_bytes: 220 * MIB, is_folded: true, least_bytes: MIB / 8, boxes }
}

/// `count` steps in columns of `per_column`, which keep `leak` MiB each.
fn steps(count: u64, per_column: u64, leak: u64) -> StepCurve {
    let columns: Vec<StepColumn> = (0..count.div_ceil(per_column))
        .map(|at| StepColumn {
            name: (at * per_column).to_string(),
            first: at * per_column,
            begin_allocated_bytes: (60 + at * leak) * MIB,
            peak_allocated_bytes: (200 + at * leak + at % 3 * 20) * MIB,
            end_allocated_bytes: (60 + (at + 1) * leak) * MIB,
            growth_bytes: (leak * MIB) as i64,
        })
        .collect();
    let band = |of: fn(u64, u64) -> u64| (1..=columns.len() as u64).map(|at| of(at, leak) * MIB).collect();
    let bands = vec![band(|_, _| 40), band(|at, leak| 12 + at * leak), band(|_, _| 5), band(|_, _| 3)];
    StepCurve { steps: count, per_column, bands, band_ranks: vec![0, 1], columns }
}

/// Four steps that end well.
pub(super) fn small() -> Pictures {
    Pictures { line_names: names(), segments: segments(), flame: flame(), steps: steps(4, 1, 0) }
}

/// A run with growth that failed.
pub(super) fn at_oom() -> Pictures {
    let segments = SegmentMap {
        event: Some(2_047),
        asked_bytes: Some(40 * MIB),
        just_obtained_bytes: None,
        ..segments()
    };
    Pictures { segments, steps: steps(23, 1, 14), ..small() }
}

/// Puts `text` wherever a name stands.
pub(super) fn poison(pictures: &mut Pictures, text: &str) {
    let labels = pictures.flame.boxes.iter_mut().map(|one| &mut one.label);
    let steps = pictures.steps.columns.iter_mut().map(|column| &mut column.name);
    for name in pictures.line_names.iter_mut().chain(labels).chain(steps) {
        name.clear();
        name.push_str(text);
    }
}

/// Twenty thousand blocks that all differ from their neighbours, a box for every pixel, and as many columns as
/// there may be; every name is `name`.
pub(super) fn densest(name: &str) -> Pictures {
    let blocks: Vec<MapBlock> = (0..20_000u64)
        .map(|n| {
            let state = [MapState::InUse, MapState::Free, MapState::Pending][(n % 3) as usize];
            MapBlock {
                bytes: 512 + n * 7_919 % 70_000,
                requested_bytes: 1,
                state,
                rank: Some((n % 13) as u32),
            }
        })
        .collect();
    let mut segments: Vec<MapSegment> =
        blocks.chunks(400).zip(1..).map(|(blocks, at)| segment(at << 40, blocks.to_vec())).collect();
    segments.extend(
        (0..5_000)
            .map(|n| MapSegment { stream: n, ..segment(n << 20, vec![block(2, MapState::Free, None)]) }),
    );
    let boxes = (0..40).flat_map(|level| {
        (0..50).map(move |at| flame_box(level, at * 20, 20, "", FlameKind::Line(Some(at as u32))))
    });
    let flame = FlameGraph { total_bytes: 1_000 * MIB, boxes: boxes.collect(), ..FlameGraph::default() };
    let mut pictures = Pictures {
        line_names: vec![String::new(); 20],
        segments: SegmentMap { segments, ..SegmentMap::default() },
        flame,
        steps: steps(590 * 40, 40, 1),
    };
    poison(&mut pictures, name);
    pictures
}
