//! What driver calls say, in the report's words.
//!
//! Owns how many rows are kept and which readings count. Figures come from `driver`.

mod device;
mod host;
mod lines;
mod timeline;

use crate::driver::{Claims, Places, program};
use crate::model::{DeviceId, DriverCall, DriverLayer, NO_DEVICE, Trace};
use crate::report::{DriverCallRow, DriverRefusedRow, DriverReport, MissingModuleRow, SymbolsRow};

use super::Options;

/// Refused requests that are kept.
const MOST_REFUSED: usize = 20;
/// Rows of lines that are kept, unless fewer are asked for.
const MOST_LINES: usize = 200;
/// Files of machine code without names that are kept.
const MOST_MISSING: usize = 20;

/// What several parts of the report look at.
struct Work<'a> {
    trace: &'a Trace,
    claims: &'a Claims<'a>,
    top: usize,
}

/// The report on the driver calls of `trace`, whose takings are charged by `claims`.
pub(super) fn report(trace: &Trace, claims: &Claims<'_>, options: &Options) -> DriverReport {
    let layer = claims.layer;
    let hook = trace.process.other.get("driver").and_then(|facts| facts.get("hook")?.as_str());
    let work = Work { trace, claims, top: options.top.unwrap_or(MOST_LINES) };
    let mut places = Places::new(trace, layer);
    let mut devices = work.claims.devices();
    devices.retain(|device| options.device.is_none_or(|wanted| device.0 == wanted));
    let failed = layer.rows.iter().filter(|row| !row.is_success()).count() as u64;
    DriverReport {
        hook: hook.map(str::to_owned),
        program: program(trace).map(str::to_owned),
        complete: layer.complete,
        calls: layer.rows.len() as u64,
        failed_calls: failed,
        by_call: by_call(layer),
        unknown_frees: work.claims.takings.unknown_frees,
        unseen_frees: work.claims.takings.unseen_frees,
        devices: devices.into_iter().map(|device| work.device(device, &mut places)).collect(),
        host: work.host(&mut places),
        refused: work.refused(&mut places),
        refused_left_out: work.claims.takings.refused.len().saturating_sub(MOST_REFUSED) as u64,
        symbols: symbols(layer),
    }
}

impl Work<'_> {
    fn refused(&self, places: &mut Places<'_>) -> Vec<DriverRefusedRow> {
        let rows = self
            .claims
            .takings
            .refused
            .iter()
            .take(MOST_REFUSED)
            .map(|&index| (index, &self.claims.layer.rows[index as usize]));
        let told = rows.map(|(index, row)| DriverRefusedRow {
            call: row.call().map_or("", DriverCall::name).to_owned(),
            device: Some(row.device).filter(|&device| device != NO_DEVICE).map(|device| device.0),
            bytes: row.bytes,
            result: row.result,
            time_us: row.time_us,
            held_bytes: self.held(row.device, index),
            holder: self.claims.holder(self.claims.holders.of_stack(row.native)).name.clone(),
            place: lines::named(places.of(row)).label(),
        });
        told.collect()
    }

    /// Whether the allocator's own events are at hand: then its memory is told by these.
    fn has_events(&self, device: DeviceId) -> bool {
        self.trace.device(device).is_some_and(|entry| entry.recorded_events() > 0)
    }
}

fn by_call(layer: &DriverLayer) -> Vec<DriverCallRow> {
    let mut rows: Vec<DriverCallRow> = DriverCall::ALL
        .iter()
        .map(|(_, name)| DriverCallRow { call: (*name).to_owned(), ..DriverCallRow::default() })
        .collect();
    let mut unknown = DriverCallRow { call: "unknown".to_owned(), ..DriverCallRow::default() };
    for row in &layer.rows {
        let told = row.call().map_or(&mut unknown, |call| &mut rows[call as usize - 1]);
        told.calls += 1;
        if row.is_success() {
            told.bytes = told.bytes.saturating_add(row.bytes);
        } else {
            told.failed += 1;
        }
    }
    rows.push(unknown);
    rows.retain(|row| row.calls > 0);
    rows
}

fn symbols(layer: &DriverLayer) -> SymbolsRow {
    let (native, names) = (&layer.native, &layer.names);
    let mut frames_of = vec![0u64; native.modules().len()];
    let mut row =
        SymbolsRow { asked: names.asked, frames: native.frames().len() as u64, ..SymbolsRow::default() };
    for (index, frame) in native.frames().iter().enumerate() {
        frames_of[frame.module as usize] += 1;
        let named = names.of(index as u32);
        if named.iter().any(|name| name.line.is_some()) {
            row.with_line += 1;
        } else if named.iter().any(|name| name.function.is_some()) {
            row.with_function += 1;
        }
    }
    let mut missing: Vec<MissingModuleRow> = names
        .missing
        .iter()
        .filter_map(|(module, reason)| {
            Some((native.modules().get(*module as usize)?, *frames_of.get(*module as usize)?, reason))
        })
        .map(|(module, frames, reason)| MissingModuleRow {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
            frames,
            reason: reason.clone(),
        })
        .collect();
    missing.sort_by(|a, b| b.frames.cmp(&a.frames).then_with(|| a.path.cmp(&b.path)));
    missing.truncate(MOST_MISSING);
    row.missing = missing;
    row
}

#[cfg(test)]
mod tests;
