//! What memlab's own recorder adds to a device's sections: modules, names, holders, memory outside.
//!
//! Owns which columns are worth a ticket. Everything from the trace goes through `escape` here.

use super::table::Page;
use super::{code, prose};
use crate::report::recorded::{
    CensusRow, HolderRow, ModuleRow, ModulesRow, OutsideRow, PhaseRow, SelfCheckRow, TensorRow,
};
use crate::report::types::DeviceReport;
use crate::units::{Bytes, Count, percent};

/// Adds the sections that `device` has something for; `share` is the room for all of them.
pub(super) fn sections(page: &mut Page, device: &DeviceReport, share: usize) {
    if let Some(modules) = &device.modules {
        self::modules(page, modules, device.peak.allocated_bytes, share / 3);
    }
    if let Some(census) = &device.census {
        self::census(page, census, share / 2);
    }
    if let Some(outside) = &device.outside {
        self::outside(page, outside);
    }
    if let Some(check) = &device.self_check {
        self_check(page, check);
    }
}

fn modules(page: &mut Page, modules: &ModulesRow, peak: u64, share: usize) {
    page.heading(3, "Modules");
    let rows: Vec<_> = modules.rows.iter().map(|row| module_row(row, peak)).collect();
    let mut unnamed = phase_cells(&modules.unnamed, peak);
    unnamed.extend(vec!["-".to_owned(); 3]);
    unnamed.extend(["no module named".to_owned(), "-".to_owned()]);
    let header = [
        "held at peak",
        "share",
        "allocations",
        "bytes in all",
        "of it forward",
        "backward",
        "optimizer",
        "module",
        "forward line",
    ];
    page.table(&header, 7, &rows, &[unnamed], share);
    page.block(&format!(
        "Of {} allocated in backward passes, {} ({}) carry a module's name.",
        Bytes(modules.backward_bytes),
        Bytes(modules.backward_named_bytes),
        percent(modules.backward_named_bytes, modules.backward_bytes)
    ));
}

fn phase_cells(figures: &PhaseRow, peak: u64) -> Vec<String> {
    vec![
        Bytes(figures.held_at_peak_bytes).to_string(),
        percent(figures.held_at_peak_bytes, peak),
        Count(figures.allocations).to_string(),
        Bytes(figures.total_bytes).to_string(),
    ]
}

fn module_row(row: &ModuleRow, peak: u64) -> Vec<String> {
    let mut cells = phase_cells(&row.total, peak);
    let phases = [&row.forward, &row.backward, &row.optimizer];
    cells.extend(phases.map(|phase| Bytes(phase.total_bytes).to_string()));
    cells.push(code(&row.module));
    cells.push(row.forward_line.as_ref().map_or_else(|| "-".to_owned(), |line| code(&line.label())));
    cells
}

fn census(page: &mut Page, census: &CensusRow, share: usize) {
    page.heading(3, "Names");
    let rows: Vec<_> = census.tensors.iter().map(tensor_row).collect();
    if !rows.is_empty() {
        let header = ["bytes", "at peak", "at end", "kind", "dtype", "shape", "name", "line"];
        page.table(&header, 1, &rows, &[], share / 2);
    }
    page.block(&format!(
        "Bytes of blocks. Censuses of live tensors: {}.{}{}",
        Count(census.count),
        left_out(census.tensors_left_out, "named allocations"),
        if census.unmatched_tensors > 0 {
            format!(
                " {} named tensors ({}) match no live allocation.",
                Count(census.unmatched_tensors),
                Bytes(census.unmatched_bytes)
            )
        } else {
            String::new()
        }
    ));
    if census.holders.is_empty() {
        return;
    }
    page.heading(3, "Who holds it");
    let rows: Vec<_> = census.holders.iter().map(holder_row).collect();
    page.table(&["bytes", "held by", "tensor", "line"], 1, &rows, &[], share / 3);
    let more = left_out(census.holders_left_out, "holders");
    page.block(&format!("Chains of Python references, largest allocation first.{more}"));
}

fn left_out(count: u64, what: &str) -> String {
    if count > 0 { format!(" {} more {what} are left out.", Count(count)) } else { String::new() }
}

fn tensor_row(row: &TensorRow) -> Vec<String> {
    let yes = |live: bool| if live { "yes" } else { "-" }.to_owned();
    let shape: Vec<String> = row.shape.iter().take(8).map(u64::to_string).collect();
    let name = if row.name.is_empty() { &row.grad_fn } else { &row.name };
    vec![
        Bytes(row.bytes).to_string(),
        yes(row.live_at_peak),
        yes(row.live_at_end),
        code(&row.kind),
        code(row.dtype.strip_prefix("torch.").unwrap_or(&row.dtype)),
        format!("({}{})", shape.join(", "), if row.shape.len() > 8 { ", ..." } else { "" }),
        code(name),
        code(row.line.as_deref().unwrap_or_default()),
    ]
}

fn holder_row(row: &HolderRow) -> Vec<String> {
    let tensor = [row.kind.as_deref(), row.name.as_deref()];
    let tensor: Vec<&str> = tensor.into_iter().flatten().collect();
    vec![
        row.bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string()),
        code(&row.path),
        code(&tensor.join(" ")),
        code(row.line.as_deref().unwrap_or_default()),
    ]
}

fn outside(page: &mut Page, outside: &OutsideRow) {
    page.heading(3, "Outside the allocator");
    page.block(&format!(
        "At most {}{}, {} at the end: of {} on the device the driver had {} left and PyTorch's allocator {} reserved. From {} samples. \
         Contexts, libraries, other allocators and other processes.",
        Bytes(outside.max_bytes),
        outside.max_event.map(|event| format!(" (event {})", Count(event))).unwrap_or_default(),
        Bytes(outside.end_bytes),
        Bytes(outside.total_bytes),
        Bytes(outside.free_bytes),
        Bytes(outside.reserved_bytes),
        Count(outside.samples),
    ));
}

fn self_check(page: &mut Page, check: &SelfCheckRow) {
    let mut text = format!(
        "Self-check: PyTorch's own counters equal the rebuilt ones at {} of {} samples.",
        Count(check.equal),
        Count(check.samples)
    );
    if let Some(first) = &check.first_difference {
        text.push_str(&format!(
            " First difference: {} was {}, rebuilt {}.",
            prose(&first.counter),
            first.recorded,
            first.rebuilt
        ));
    }
    if check.missing_allocations > 0 {
        text.push_str(&format!(" {} allocations were not recorded.", Count(check.missing_allocations)));
    }
    page.block(&text);
}
