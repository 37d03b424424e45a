//! One device in the Markdown page: figures, OOMs, lines, fragmentation, pools, steps.
//!
//! Owns which columns are worth a ticket. Everything from the trace goes through `escape` here.

use super::table::Page;
use super::{code, live, prose, recorded};
use crate::report::categories::CategoryTableRow;
use crate::report::lines_table::bytes_of_other_lines;
use crate::report::steps_table::{self, Shown};
use crate::report::text::pin_label;
use crate::report::types::{
    DeviceReport, Four, Fragmentation, LineFigures, LineRow, OomRow, PinRow, PoolRow, StepsRow, TraceReport,
};
use crate::report::verdict;
use crate::units::{Bytes, Count, SignedBytes, percent};

/// Adds all sections of `device` to `page`, which is as large as this device may be.
pub(super) fn device(page: &mut Page, trace: &TraceReport, device: &DeviceReport, pictures: bool) {
    let room = page.room();
    counters(page, device);
    ooms(page, &device.ooms, room / 6);
    lines(page, device, room * 2 / 5);
    categories(page, device, room / 10);
    live::sections(page, trace, device, room / 10);
    recorded::sections(page, device, room / 4);
    fragmentation(page, device, room / 6);
    what_would_help(page, device, room / 10);
    pools(page, &device.pools, room / 8);
    steps(page, &device.steps, room / 8);
    if pictures {
        images(page, device);
    }
}

fn counters(page: &mut Page, device: &DeviceReport) {
    page.heading(3, "Figures");
    let bytes = |name: &str, four: &Four<u64>| {
        let mut cells = vec![name.to_owned()];
        cells.extend(each(four).map(|&bytes| exact(bytes)));
        cells
    };
    let mut events = vec!["at event".to_owned()];
    events.extend(each(&device.peak_event).map(|event| at_event(*event)));
    let rows = [
        bytes("before the recording", &device.initial),
        bytes("peak", &device.peak),
        events,
        bytes("end", &device.end),
    ];
    page.table(&["", "requested", "allocated", "active", "reserved"], 0, &rows, &[], usize::MAX);
    page.block(
        "Each peak is that counter's own maximum. Requested: asked for. Allocated: the blocks handed out. \
         Active: plus frees that wait for another stream. Reserved: held from the driver.",
    );
}

fn each<T>(four: &Four<T>) -> [&T; 4] {
    [&four.requested_bytes, &four.allocated_bytes, &four.active_bytes, &four.reserved_bytes]
}

fn exact(bytes: u64) -> String {
    if bytes < 1024 { Bytes(bytes).to_string() } else { format!("{} ({})", Bytes(bytes), Count(bytes)) }
}

fn at_event(event: Option<u64>) -> String {
    event.map_or_else(|| "before the first".to_owned(), |event| Count(event).to_string())
}

fn ooms(page: &mut Page, ooms: &[OomRow], share: usize) {
    let Some(last) = ooms.last() else { return };
    page.heading(3, "Out of memory");
    page.block(&format!(
        "{} asked {}; verdict **{}**.",
        exact(last.requested_bytes),
        prose(&verdict::oom_place(last)),
        prose(&last.verdict)
    ));
    page.list(&last.explanation.iter().map(|sentence| prose(sentence)).collect::<Vec<_>>(), share / 2);
    let rows: Vec<_> = ooms.iter().rev().map(oom_row).collect();
    let header = [
        "event",
        "asked",
        "free on device",
        "largest free block",
        "reserved",
        "active",
        "pending",
        "verdict",
        "line",
    ];
    page.table(&header, 7, &rows, &[], share / 2);
}

fn oom_row(oom: &OomRow) -> Vec<String> {
    vec![
        Count(oom.event).to_string(),
        Bytes(oom.requested_bytes).to_string(),
        oom.device_free_bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string()),
        Bytes(oom.largest_free_block_bytes).to_string(),
        Bytes(oom.reserved_bytes).to_string(),
        Bytes(oom.active_bytes).to_string(),
        Bytes(oom.pending_free_bytes).to_string(),
        prose(&oom.verdict),
        code(oom.line.as_deref().unwrap_or_default()),
    ]
}

fn lines(page: &mut Page, device: &DeviceReport, share: usize) {
    page.heading(3, "Lines");
    let peak = device.peak.allocated_bytes;
    let rows: Vec<_> = device.lines.iter().map(|line| line_row(line, peak)).collect();
    let mut last = Vec::new();
    if device.lines_left_out > 0 {
        let held = bytes_of_other_lines(device, &device.lines);
        let mut cells = vec![Bytes(held).to_string(), percent(held, peak)];
        cells.extend(vec!["-".to_owned(); 5]);
        cells.push(format!("{} lines left out by --top", Count(device.lines_left_out)));
        last.push(cells);
    }
    let unattributed = figures(&device.unattributed, "-".to_owned(), peak);
    last.push(unattributed.into_iter().chain(["no line known".to_owned()]).collect());
    let header = [
        "held at peak",
        "share",
        "own peak",
        "active on stack",
        "allocations",
        "bytes in all",
        "live at end",
        "line",
    ];
    page.table(&header, 7, &rows, &last, share);
    let unknown = device.unattributed.held_at_peak_bytes;
    let inferred =
        device.lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.figures.inferred_bytes));
    page.block(&format!(
        "Grouped by {}. {} Held at peak: live when allocated bytes peak ({}). Unattributed: {} ({}). Inferred: {} ({}), \
         allocations of the backward pass without Python frames, given to the line that started it (marked \\*).",
        prose(&device.group_by),
        prose(&device.line_rule),
        Bytes(peak),
        Bytes(unknown),
        percent(unknown, peak),
        Bytes(inferred),
        percent(inferred, peak)
    ));
}

fn line_row(line: &LineRow, peak: u64) -> Vec<String> {
    let mark = if line.figures.inferred_bytes > 0 { " \\*" } else { "" };
    let mut cells = figures(&line.figures, Bytes(line.active_peak_on_stack_bytes).to_string(), peak);
    cells.push(code(&line.label()) + mark);
    cells
}

fn figures(figures: &LineFigures, on_stack: String, peak: u64) -> Vec<String> {
    vec![
        Bytes(figures.held_at_peak_bytes).to_string(),
        percent(figures.held_at_peak_bytes, peak),
        Bytes(figures.own_peak_bytes).to_string(),
        on_stack,
        Count(figures.allocations).to_string(),
        Bytes(figures.total_bytes).to_string(),
        Bytes(figures.live_at_end_bytes).to_string(),
    ]
}

/// At the OOM only where there was one, named bytes only where a census names any.
fn categories(page: &mut Page, device: &DeviceReport, share: usize) {
    let table = &device.categories;
    if table.rows.is_empty() {
        return;
    }
    page.heading(3, "Categories");
    let has_oom = table.rows.iter().any(|row| row.held_at_oom_bytes.is_some());
    let has_names = table.rows.iter().any(|row| row.named_at_peak_bytes > 0);
    let chosen = |cells: Vec<(bool, String)>| -> Vec<String> {
        cells.into_iter().filter_map(|(is_shown, cell)| is_shown.then_some(cell)).collect()
    };
    let peak = device.peak.allocated_bytes;
    let row = |row: &CategoryTableRow| {
        chosen(vec![
            (has_oom, Bytes(row.held_at_oom_bytes.unwrap_or(0)).to_string()),
            (true, Bytes(row.held_at_peak_bytes).to_string()),
            (true, percent(row.held_at_peak_bytes, peak)),
            (has_names, Bytes(row.named_at_peak_bytes).to_string()),
            (true, Bytes(row.own_peak_bytes).to_string()),
            (true, Count(row.allocations).to_string()),
            (true, Bytes(row.live_at_end_bytes).to_string()),
            (true, prose(&row.label())),
        ])
    };
    let header = [
        (has_oom, "at the OOM"),
        (true, "at the peak"),
        (true, "share"),
        (has_names, "of it named"),
        (true, "own peak"),
        (true, "allocations"),
        (true, "live at end"),
        (true, "category"),
    ];
    let header: Vec<&str> = header.iter().filter(|cell| cell.0).map(|cell| cell.1).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(row).collect();
    page.table(&header, header.len() - 1, &rows, &[], share);
    page.block(&prose(&table.rule));
}

fn fragmentation(page: &mut Page, device: &DeviceReport, share: usize) {
    page.heading(3, "Fragmentation");
    let row = &device.fragmentation;
    let moments: Vec<(&str, &Fragmentation)> = row
        .at_oom
        .iter()
        .map(|at| ("at the OOM", at))
        .chain([("at the peak of reserved", &row.at_peak), ("at the end", &row.at_end)])
        .collect();
    let rows: Vec<_> = moments.iter().map(|(name, at)| fragmentation_row(name, at)).collect();
    let header = [
        "",
        "reserved",
        "requested",
        "rounding",
        "pending free",
        "releasable",
        "stranded",
        "largest free block",
        "1 - active / reserved",
    ];
    page.table(&header, 0, &rows, &[], usize::MAX);
    page.block(
        "Rounding: allocated minus requested. Pending free: freed, but waiting for another stream. Releasable: in \
         segments that are wholly free. Stranded: free, but in a segment that a live block pins. Requested + rounding \
         + pending free + releasable + stranded = reserved.",
    );
    by_cause(page, &moments);
    let (moment, at) = verdict::telling_fragmentation(device);
    if at.pins.is_empty() {
        return;
    }
    page.block(&format!(
        "{} stranded in {} free blocks {moment}, pinned by:",
        Bytes(at.stranded_bytes),
        Count(at.stranded_blocks)
    ));
    let rows: Vec<_> = at.pins.iter().map(pin_row).collect();
    let header = ["stranded beside it", "pinned by it alone", "its blocks", "their bytes", "line"];
    page.table(&header, 4, &rows, &[], share);
}

/// The same bytes once more: what stands in the way of using them.
fn by_cause(page: &mut Page, moments: &[(&str, &Fragmentation)]) {
    let rows: Vec<Vec<String>> = moments
        .iter()
        .map(|(name, at)| {
            let rest = at.reserved_bytes.saturating_sub(at.requested_bytes);
            let causes = at.by_cause.named().map(|(_, bytes)| Bytes(bytes).to_string());
            [(*name).to_owned(), Bytes(rest).to_string()].into_iter().chain(causes).collect()
        })
        .collect();
    let mut header = vec!["", "reserved - requested"];
    header.extend(
        moments.first().map(|(_, at)| at.by_cause.named().map(|(name, _)| name)).into_iter().flatten(),
    );
    page.table(&header, 0, &rows, &[], usize::MAX);
    page.block(
        "The same bytes by cause, each under one: rounding; frees that wait; free beside a block in use (split \
         remainders); free on other streams than the main one; free in private pools; wholly free segments.",
    );
}

fn fragmentation_row(name: &str, at: &Fragmentation) -> Vec<String> {
    let mut cells = vec![format!("{name} (event {})", at_event(at.event))];
    cells.extend(
        [
            at.reserved_bytes,
            at.requested_bytes,
            at.rounding_bytes,
            at.pending_free_bytes,
            at.releasable_bytes,
            at.stranded_bytes,
            at.largest_free_block_bytes,
        ]
        .map(|bytes| Bytes(bytes).to_string()),
    );
    cells.push(format!("{:.1} %", at.ratio * 100.0));
    cells
}

fn pin_row(pin: &PinRow) -> Vec<String> {
    let label = pin_label(pin);
    vec![
        Bytes(pin.stranded_bytes).to_string(),
        Bytes(pin.sole_stranded_bytes).to_string(),
        Count(pin.blocks).to_string(),
        Bytes(pin.block_bytes).to_string(),
        if pin.file.is_some() { code(&label) } else { prose(&label) },
    ]
}

fn what_would_help(page: &mut Page, device: &DeviceReport, share: usize) {
    let Some(help) = &device.what_would_help else { return };
    page.heading(3, "What would help");
    page.block(&prose(&help.recommendation.reason));
    let (header, rows) = help.table();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| prose(cell)).collect()).collect();
    page.table(&header, 3, &rows, &[], share);
    page.block("The recorded requests replayed under other allocator settings; `memlab whatif` says more.");
}

fn pools(page: &mut Page, pools: &[PoolRow], share: usize) {
    if pools.is_empty() {
        return;
    }
    page.heading(3, "Pools and streams");
    let rows: Vec<_> = pools.iter().map(pool_row).collect();
    let header = ["segments", "reserved", "active", "releasable", "stranded", "stream", "pool", "kind"];
    page.table(&header, 5, &rows, &[], share);
    page.block(
        "At the peak of reserved bytes. Stream 0 is the default stream, pool (0, 0) the default pool.",
    );
}

fn pool_row(pool: &PoolRow) -> Vec<String> {
    vec![
        Count(pool.segments).to_string(),
        Bytes(pool.reserved_bytes).to_string(),
        Bytes(pool.active_bytes).to_string(),
        Bytes(pool.releasable_bytes).to_string(),
        Bytes(pool.stranded_bytes).to_string(),
        if pool.stream == 0 { "0".to_owned() } else { format!("{:#x}", pool.stream) },
        format!("({}, {})", pool.pool.0, pool.pool.1),
        pool.kind.to_owned(),
    ]
}

fn steps(page: &mut Page, steps: &StepsRow, share: usize) {
    page.heading(3, "Steps");
    page.block(&format!("{}.", prose(&steps_table::sentence(steps))));
    let rows: Vec<_> = steps_table::telling(&steps.rows).iter().map(step_row).collect();
    if !rows.is_empty() {
        let header = ["peak", "at event", "live before", "live at end", "growth", "events", "step"];
        page.table(&header, 6, &rows, &[], share);
    }
}

fn step_row(shown: &Shown) -> Vec<String> {
    match shown {
        Shown::Step(step) => vec![
            Bytes(step.peak_allocated_bytes).to_string(),
            at_event(step.peak_event),
            Bytes(step.begin_allocated_bytes).to_string(),
            Bytes(step.end_allocated_bytes).to_string(),
            SignedBytes(step.growth_bytes).to_string(),
            Count(step.end_event.saturating_sub(step.begin_event)).to_string(),
            prose(&step.name),
        ],
        Shown::More(count) => {
            let mut cells = vec!["-".to_owned(); 6];
            cells.push(format!("{} more", Count(*count)));
            cells
        }
    }
}

/// The pictures beside the page, and why one is missing.
fn images(page: &mut Page, device: &DeviceReport) {
    let has_steps = !device.pictures.steps.columns.is_empty();
    let shown = [
        ("timeline", "Allocated memory by line over time"),
        ("segments", "The allocator's segments to scale"),
        ("flamegraph", "What was live at the peak, by stack"),
        ("steps", "Allocated memory by step"),
        ("fragmentation", "Reserved memory and its holes over time"),
    ];
    page.heading(3, "Pictures");
    let images: Vec<String> = shown
        .into_iter()
        .filter(|(kind, _)| *kind != "steps" || has_steps)
        .map(|(kind, what)| format!("![{what}]({})", super::picture_name(kind, device.device)))
        .collect();
    page.block(&images.join("\n\n"));
    if !has_steps {
        page.block("No steps were found, so there is no picture of them.");
    }
}
