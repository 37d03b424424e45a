//! What memlab's own recorder adds to a fixed report: three modules, a census, holders, readings.

use super::fixtures::HOSTILE;
use super::recorded::*;
use super::types::DeviceReport;

const MIB: u64 = 1 << 20;

/// Fills in what a snapshot leaves out.
pub(super) fn add(device: &mut DeviceReport) {
    device.modules = Some(modules(device.peak.allocated_bytes));
    device.categories.source = "named".to_owned();
    for row in &mut device.categories.rows {
        row.named_at_peak_bytes = row.held_at_peak_bytes / 2;
    }
    device.census = Some(census(device.peak.allocated_bytes));
    let point =
        |event, bytes| OutsidePointRow { event: Some(event), time_us: 1_000_000 + event as i64, bytes };
    device.outside = Some(OutsideRow {
        samples: 3,
        max_bytes: 611 * MIB,
        max_event: Some(1_500),
        end_bytes: 598 * MIB,
        total_bytes: 1_200 * MIB,
        free_bytes: 62 * MIB,
        reserved_bytes: 540 * MIB,
        series: vec![point(700, 590 * MIB), point(1_500, 611 * MIB), point(2_047, 598 * MIB)],
    });
    device.self_check =
        Some(SelfCheckRow { samples: 3, equal: 3, missing_allocations: 0, first_difference: None });
}

fn modules(peak: u64) -> ModulesRow {
    let phase = |held: u64, allocations: u64| PhaseRow {
        held_at_peak_bytes: held * MIB,
        total_bytes: 10 * held * MIB,
        allocations,
    };
    let module = |name: &str, line: u64, forward: u64, backward: u64| ModuleRow {
        module: name.to_owned(),
        forward_line: Some(PlaceRow {
            file: Some("model/block.py".to_owned()),
            line: Some(line),
            function: Some("forward".to_owned()),
        }),
        total: phase(forward + backward, 30),
        forward: phase(forward, 20),
        backward: phase(backward, 10),
        optimizer: PhaseRow::default(),
    };
    ModulesRow {
        rows: vec![
            module("blocks.0.mlp.up", 41, 120, 80),
            module("blocks.1.mlp.up", 41, 40, 20),
            ModuleRow {
                module: "AdamW".to_owned(),
                total: phase(30, 4),
                optimizer: phase(30, 4),
                ..ModuleRow::default()
            },
        ],
        unnamed: PhaseRow { held_at_peak_bytes: peak - 290 * MIB, total_bytes: peak, allocations: 99 },
        backward_bytes: 1_040 * MIB,
        backward_named_bytes: 1_000 * MIB,
    }
}

fn census(allocated: u64) -> CensusRow {
    let kind = |kind: &str, allocations, bytes| CategoryRow {
        kind: kind.to_owned(),
        allocations,
        bytes,
        block_bytes: bytes,
    };
    let at_oom = vec![
        kind("optimizer_state", 80, 200 * MIB),
        kind("activation", 30, 180 * MIB),
        kind("parameter", 40, 100 * MIB),
        kind("unknown", 211, allocated - 480 * MIB),
    ];
    let tensor = |name: &str, kind: &str, bytes, grad_fn: &str| TensorRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        bytes,
        block_bytes: bytes,
        dtype: "torch.bfloat16".to_owned(),
        shape: vec![bytes / 2048, 1024],
        grad_fn: grad_fn.to_owned(),
        live_at_peak: true,
        live_at_end: false,
        line: Some("model/block.py:41 forward".to_owned()),
    };
    CensusRow {
        count: 1,
        unmatched_tensors: 2,
        unmatched_bytes: 1024,
        categories: CategoriesRow { at_peak: at_oom.clone(), at_end: at_oom.clone(), at_oom: Some(at_oom) },
        tensors: vec![
            tensor("blocks.0.mlp.up.weight", "parameter", 8 * MIB, ""),
            tensor("", "activation", 6 * MIB, "MulBackward0"),
        ],
        tensors_left_out: 118,
        holders: vec![
            HolderRow {
                path: "module train: CACHE.data[12]".to_owned(),
                bytes: Some(6 * MIB),
                address: 0x7f00_0000_0000,
                line: Some("train.py:61 loss".to_owned()),
                kind: Some("activation".to_owned()),
                name: None,
            },
            HolderRow { path: "(search cut off after 2 s)".to_owned(), ..HolderRow::default() },
        ],
        holders_left_out: 0,
    }
}

/// Makes every text that comes from the trace hostile.
pub(super) fn poison(device: &mut DeviceReport) {
    let text = || HOSTILE.to_owned();
    if let Some(modules) = &mut device.modules {
        for row in &mut modules.rows {
            row.module = text();
            row.forward_line = Some(PlaceRow { file: Some(text()), line: Some(1), function: Some(text()) });
        }
    }
    let Some(census) = &mut device.census else { return };
    let categories = &mut census.categories;
    let lists = [&mut categories.at_peak, &mut categories.at_end];
    for row in lists.into_iter().chain(&mut categories.at_oom).flatten() {
        row.kind = text();
    }
    for row in &mut census.tensors {
        (row.name, row.kind, row.dtype, row.grad_fn, row.line) =
            (text(), text(), text(), text(), Some(text()));
    }
    for row in &mut census.holders {
        (row.path, row.line, row.kind, row.name) = (text(), Some(text()), Some(text()), Some(text()));
    }
}

/// Repeats every row `times` times.
pub(super) fn repeat(device: &mut DeviceReport, times: usize) {
    if let Some(modules) = &mut device.modules {
        modules.rows = vec![modules.rows[0].clone(); times];
    }
    if let Some(census) = &mut device.census {
        census.tensors = vec![census.tensors[0].clone(); times];
        census.holders = vec![census.holders[0].clone(); times];
        census.categories.at_peak = vec![census.categories.at_peak[0].clone(); times];
    }
}
