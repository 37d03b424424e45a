//! Fixed reports of driver calls: a training job that ran out of memory beside NCCL and an extension, and a plain
//! CUDA program that leaks. Figures add up as those of a real run do.

use super::driver::*;
use super::fixtures::{self, HOSTILE};
use super::types::{Report, SCHEMA, Timeline, TimelineMark, TraceReport};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Of the job's device.
const TOTAL: u64 = 8 * GIB;
pub(super) const ALLOCATOR: &str = "PyTorch's caching allocator";

/// The failed run of `fixtures` with both recorders: the allocator reserves 5 GiB of a device of 8.
pub(super) fn full() -> Report {
    let mut report = fixtures::oom();
    let trace = &mut report.traces[0];
    trace.format = "memlab-trace";
    let device = &mut trace.devices[0];
    device.total_bytes = Some(TOTAL);
    let places = &mut device.fragmentation;
    for at in [&mut places.at_peak, &mut places.at_end].into_iter().chain(&mut places.at_oom) {
        at.releasable_bytes += 5 * GIB - at.reserved_bytes;
        at.reserved_bytes = 5 * GIB;
        at.ratio = 1.0 - at.active_bytes as f64 / at.reserved_bytes as f64;
    }
    (device.peak.reserved_bytes, device.end.reserved_bytes) = (5 * GIB, 5 * GIB);
    device.ooms[0].reserved_bytes = 5 * GIB;
    trace.driver = Some(job());
    report
}

fn job() -> DriverReport {
    DriverReport {
        hook: Some("cupti".to_owned()),
        program: Some("python3.12".to_owned()),
        complete: false,
        calls: 2_841,
        failed_calls: 2,
        by_call: vec![call("device_alloc", 301, 2, 6_929 * MIB), call("device_free", 40, 0, 0)],
        unknown_frees: 3,
        unseen_frees: 1,
        devices: vec![job_device()],
        host: Some(host()),
        refused: vec![DriverRefusedRow {
            call: "device_alloc".to_owned(),
            device: Some(0),
            bytes: 400 * MIB,
            result: 2,
            time_us: 1_700_000_000_900_000,
            held_bytes: 6_629 * MIB,
            holder: ALLOCATOR.to_owned(),
            place: "train.py:100 step".to_owned(),
        }],
        refused_left_out: 1,
        symbols: SymbolsRow {
            asked: true,
            frames: 5_120,
            with_line: 3_000,
            with_function: 2_000,
            missing: vec![missing("/opt/lib/libnccl.so.2", 100), missing(&format!("/opt/{HOSTILE}"), 20)],
        },
    }
}

fn call(name: &str, calls: u64, failed: u64, bytes: u64) -> DriverCallRow {
    DriverCallRow { call: name.to_owned(), calls, failed, bytes }
}

fn missing(path: &str, frames: u64) -> MissingModuleRow {
    MissingModuleRow {
        path: path.to_owned(),
        build_id: "5f3c9a".to_owned(),
        frames,
        reason: "another build id".to_owned(),
    }
}

fn job_device() -> DriverDeviceRow {
    let holders = [
        holder(ALLOCATOR, "allocator", 5_120, 5_120, 250, 0),
        holder("NCCL", "library", 1_024, 0, 8, 8),
        holder(HOSTILE, "program", 300, 300, 3, 0),
        holder("cuDNN", "library", 120, 0, 30, 30),
        holder("cuBLAS", "library", 65, 65, 8, 7),
    ];
    let parts = |at_end: bool| -> Vec<DriverPartRow> {
        let bytes = |row: &DriverHolderRow| if at_end { row.end_bytes } else { row.at_peak_bytes };
        let part = |row: &DriverHolderRow| DriverPartRow { holder: row.holder.clone(), bytes: bytes(row) };
        holders.iter().map(part).filter(|part| part.bytes > 0).collect()
    };
    DriverDeviceRow {
        device: 0,
        total_bytes: Some(TOTAL),
        peak_bytes: 6_629 * MIB,
        peak_time_us: Some(1_700_000_000_800_000),
        end_bytes: 5_485 * MIB,
        sums: vec![
            sum("first", 819, Vec::new()),
            sum("peak", 8_100, parts(false)),
            sum("oom", 8_130, parts(false)),
            sum("end", 7_100, parts(true)),
        ],
        kinds: vec![kind("device", 6_629, 5_485, 299, 45), kind("managed", 16, 0, 1, 1)],
        lines: vec![
            line(ALLOCATOR, place(None, 0, "", ""), 5_120, 250, 250),
            line("NCCL", place(None, 0, "ncclCommInitRank", "libnccl.so.2"), 1_024, 8, 0),
            line(HOSTILE, place(Some(HOSTILE), 12, HOSTILE, ""), 300, 3, 3),
            line("cuDNN", place(Some("model/block.py"), 41, "forward", ""), 120, 30, 0),
            line("cuBLAS", place(None, 0, "cublasCreate_v2", "libcublas.so.13"), 65, 8, 1),
        ],
        lines_left_out: 2,
        holders: holders.to_vec(),
        join: Some(DriverJoinRow {
            segments: 252,
            matched: 250,
            matched_bytes: 5_120 * MIB,
            live_segments: 250,
            live_bytes: 5_120 * MIB,
            live_matched: 250,
            live_matched_bytes: 5_120 * MIB,
            takings_without_segment: 2,
        }),
        timeline: timeline(&[ALLOCATOR, "NCCL", HOSTILE, "cuDNN", "cuBLAS"], &[5_120, 1_024, 300, 120, 65]),
    }
}

/// Context, loaded code and other processes take the same at all moments; what is left is unknown.
fn sum(at: &str, used: u64, parts: Vec<DriverPartRow>) -> DriverSumRow {
    let (context, loaded, others) = (500, 12, 307);
    let held: u64 = parts.iter().map(|part| part.bytes).sum();
    DriverSumRow {
        at: at.to_owned(),
        time_us: 1_700_000_000_000_000 + used as i64,
        used_bytes: used * MIB,
        process_bytes: Some((used - others) * MIB),
        unknown_bytes: ((used - context - loaded - others) * MIB) as i64 - held as i64,
        parts,
        context_bytes: Some(context * MIB),
        loaded_bytes: Some(loaded * MIB),
        others_bytes: Some(others * MIB),
    }
}

fn holder(name: &str, kind: &str, peak: u64, end: u64, taken: u64, given_back: u64) -> DriverHolderRow {
    DriverHolderRow {
        holder: name.to_owned(),
        kind: kind.to_owned(),
        modules: vec![format!("lib{}.so", if kind == "program" { name } else { "x" })],
        at_peak_bytes: peak * MIB,
        own_peak_bytes: (peak + 1) * MIB,
        end_bytes: end * MIB,
        total_bytes: (peak + 50) * MIB,
        taken,
        given_back,
        note: (kind == "allocator").then(|| "its lines are those of the device".to_owned()),
    }
}

fn kind(name: &str, peak: u64, end: u64, taken: u64, given_back: u64) -> DriverKindRow {
    DriverKindRow { kind: name.to_owned(), peak_bytes: peak * MIB, end_bytes: end * MIB, taken, given_back }
}

/// A place: a source line, or a function of a module; without either, the allocator's one row.
fn place(file: Option<&str>, number: u64, function: &str, module: &str) -> DriverLineRow {
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    DriverLineRow {
        file: file.map(str::to_owned),
        line: file.map(|_| number),
        function: known(function).or_else(|| known(ALLOCATOR)),
        module: known(module),
        ..DriverLineRow::default()
    }
}

fn line(holder: &str, place: DriverLineRow, peak: u64, taken: u64, kept: u64) -> DriverLineRow {
    DriverLineRow {
        holder: holder.to_owned(),
        kind: "device".to_owned(),
        at_peak_bytes: peak * MIB,
        own_peak_bytes: peak * MIB,
        total_bytes: (peak + 50) * MIB,
        taken,
        kept,
        kept_bytes: (peak * MIB).checked_div(taken).unwrap_or(0) * kept,
        ..place
    }
}

fn host() -> DriverHostRow {
    let pinned = place(Some("data/loader.py"), 88, "collate", "");
    DriverHostRow {
        kinds: vec![kind("pinned", 256, 64, 12, 9), kind("registered", 32, 0, 2, 2)],
        lines: vec![DriverLineRow { kind: "pinned".to_owned(), ..line("unknown", pinned, 256, 12, 3) }],
        lines_left_out: 0,
    }
}

/// Holders that come one after the other and stay; what is in use is a fifth more.
fn timeline(names: &[&str], mib: &[u64]) -> Timeline {
    const SAMPLES: u64 = 60;
    let x: Vec<u64> = (0..SAMPLES).map(|sample| sample * 15_000).collect();
    let grown = |rank: u64, most: u64, sample: u64| most * MIB * sample.saturating_sub(rank * 5).min(20) / 20;
    let bands: Vec<Vec<u64>> = (0u64..)
        .zip(mib)
        .map(|(rank, &most)| (0..SAMPLES).map(|at| grown(rank, most, at)).collect())
        .collect();
    let allocated: Vec<u64> =
        (0..SAMPLES as usize).map(|sample| bands.iter().map(|band| band[sample]).sum()).collect();
    let peak = allocated.iter().copied().max().unwrap_or(0);
    let at = allocated.iter().position(|&bytes| bytes == peak).unwrap_or(0);
    let mark = |x, kind, label: String| TimelineMark { x, kind, label };
    Timeline {
        x_is_time: true,
        x_end: x[x.len() - 1],
        band_names: names.iter().map(|&name| name.to_owned()).collect(),
        bands,
        active: allocated.clone(),
        reserved: allocated.iter().map(|bytes| bytes + bytes / 5).collect(),
        marks: vec![
            mark(x[at], "peak", format!("peak {}", crate::units::Bytes(peak))),
            mark(x[x.len() - 1], "oom", "refused: 400.0 MiB".to_owned()),
        ],
        allocated,
        x,
        events_per_sample: 1,
        ..Timeline::default()
    }
}

/// A CUDA program of one file, recorded from beginning to end: no allocator, hence no device of its own.
pub(super) fn leaks() -> Report {
    let trace = TraceReport {
        path: "runs/leaks.msgpack".to_owned(),
        format: "memlab-trace",
        events: 0,
        complete: true,
        warnings: Vec::new(),
        allocator_conf: String::new(),
        process: vec![("pid".to_owned(), "4711".to_owned())],
        devices: Vec::new(),
        findings: Vec::new(),
        driver: Some(program()),
        reduced: None,
    };
    Report { schema: SCHEMA, tool: "memlab 0.1.0".to_owned(), traces: vec![trace] }
}

fn program() -> DriverReport {
    let source = |number, function| place(Some("leaks.cu"), number, function, "");
    let part = |bytes| vec![DriverPartRow { holder: "leaks".to_owned(), bytes }];
    let device = DriverDeviceRow {
        device: 0,
        total_bytes: Some(TOTAL),
        peak_bytes: 640 * MIB,
        peak_time_us: Some(1_700_000_000_200_000),
        end_bytes: 64 * MIB,
        sums: vec![
            sum("first", 830, Vec::new()),
            sum("peak", 1_460, part(640 * MIB)),
            sum("end", 890, part(64 * MIB)),
        ],
        holders: vec![holder("leaks", "program", 640, 64, 10, 9)],
        kinds: vec![kind("device", 640, 64, 10, 9)],
        lines: vec![
            line("leaks", source(41, "pools"), 512, 8, 0),
            line("leaks", source(27, "runtime"), 128, 2, 1),
        ],
        lines_left_out: 0,
        join: None,
        timeline: timeline(&["leaks"], &[640]),
    };
    DriverReport {
        hook: Some("cupti".to_owned()),
        program: Some("leaks".to_owned()),
        complete: true,
        calls: 21,
        failed_calls: 1,
        by_call: vec![call("device_alloc", 11, 1, 690 * MIB), call("device_free", 10, 0, 0)],
        devices: vec![device],
        host: Some(DriverHostRow { kinds: vec![kind("pinned", 8, 0, 1, 1)], ..DriverHostRow::default() }),
        refused: vec![DriverRefusedRow {
            call: "device_alloc".to_owned(),
            device: Some(0),
            bytes: 80 * GIB,
            result: 2,
            time_us: 1_700_000_000_300_000,
            held_bytes: 128 * MIB,
            holder: "leaks".to_owned(),
            place: "leaks.cu:60 main".to_owned(),
        }],
        symbols: SymbolsRow { frames: 140, ..SymbolsRow::default() },
        ..DriverReport::default()
    }
}

/// `report` with every text of its driver calls made hostile.
pub(super) fn hostile(mut report: Report) -> Report {
    let text = || HOSTILE.to_owned();
    let trace = &mut report.traces[0];
    trace.path = text();
    let Some(driver) = &mut trace.driver else { return report };
    (driver.hook, driver.program) = (Some(text()), Some(text()));
    for call in &mut driver.by_call {
        call.call = text();
    }
    for row in &mut driver.refused {
        (row.call, row.holder, row.place) = (text(), text(), text());
    }
    for row in &mut driver.symbols.missing {
        (row.path, row.build_id, row.reason) = (text(), text(), text());
    }
    driver.devices.iter_mut().for_each(poison);
    if let Some(host) = &mut driver.host {
        host.kinds.iter_mut().for_each(|row| row.kind = text());
        host.lines.iter_mut().for_each(poison_line);
    }
    report
}

fn poison(device: &mut DriverDeviceRow) {
    let text = || HOSTILE.to_owned();
    for row in &mut device.holders {
        (row.holder, row.kind, row.modules, row.note) = (text(), text(), vec![text()], Some(text()));
    }
    for part in device.sums.iter_mut().flat_map(|sum| &mut sum.parts) {
        part.holder = text();
    }
    device.kinds.iter_mut().for_each(|row| row.kind = text());
    device.lines.iter_mut().for_each(poison_line);
    device.timeline.band_names.iter_mut().for_each(|name| *name = text());
    device.timeline.marks.iter_mut().for_each(|mark| mark.label = text());
}

fn poison_line(row: &mut DriverLineRow) {
    let text = || Some(HOSTILE.to_owned());
    (row.file, row.function, row.module) = (text(), text(), text());
    (row.holder, row.kind) = (HOSTILE.to_owned(), HOSTILE.to_owned());
}

/// `leaks` with `count` rows in every list, whose names are as long as paths get.
pub(super) fn many(count: usize) -> Report {
    let mut report = hostile(full());
    report.traces[0].devices.clear();
    let Some(driver) = &mut report.traces[0].driver else { return report };
    let long = "a_rather_long_folder_name/".repeat(12);
    let device = &mut driver.devices[0];
    device.lines[0].file = Some(format!("{long}kernel.cu"));
    device.lines = vec![device.lines[0].clone(); count];
    let named = |n: usize| DriverHolderRow { holder: format!("{long}{n}.so"), ..device.holders[0].clone() };
    device.holders = (0..count).map(named).collect();
    let part = |row: &DriverHolderRow| DriverPartRow { holder: row.holder.clone(), bytes: MIB };
    let parts: Vec<_> = device.holders.iter().map(part).collect();
    device.sums.iter_mut().for_each(|sum| sum.parts.clone_from(&parts));
    driver.refused = vec![driver.refused[0].clone(); count];
    driver.symbols.missing = vec![driver.symbols.missing[0].clone(); count];
    if let Some(host) = &mut driver.host {
        host.lines = vec![host.lines[0].clone(); count];
    }
    report
}
