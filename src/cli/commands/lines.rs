//! `memlab lines`: the table of lines alone, for the screen, as JSON or as CSV.

use serde::Serialize;

use crate::analysis;
use crate::cli::args::LinesArgs;
use crate::cli::console::Console;
use crate::cli::{Status, input};
use crate::report::{self, DeviceReport, LineFigures, LineRow, ModulesRow, SCHEMA, Style, TraceReport};

/// Runs the command.
pub(crate) fn run(args: &LinesArgs, console: &Console) -> anyhow::Result<Status> {
    let mut options = args.analysis.options(false);
    let for_screen = !args.json && !args.csv;
    if for_screen {
        // The renderer leaves rows out itself, and says so.
        options.top = None;
    }
    let trace = input::one_part(&args.trace, args.analysis.part().as_ref(), console, |input| {
        if let Some(option) = args.analysis.needs_events() {
            input::require_events(&input.trace, option)?;
        }
        input::require_allocator(&input.trace, "lines")?;
        input::require_device(&input.trace, options.device)?;
        input::require_window(&input.trace, &options)?;
        Ok(analysis::analyze(&input.label, &input.trace, &options)?)
    })?;
    for warning in &trace.warnings {
        console.warning(&trace.path, &warning.text, warning.count);
    }
    let text = match (args.json, args.csv) {
        (true, _) => json(&trace),
        (false, true) => csv(&trace),
        (false, false) => screen(&trace, args.analysis.screen_top(), console.style()),
    };
    console.print(&text)?;
    Ok(Status::Done)
}

fn screen(trace: &TraceReport, top: usize, style: Style) -> String {
    let table = |device: &DeviceReport| {
        let modules = report::modules_table(device, top, style);
        let gap = if modules.is_empty() { "" } else { "\n" };
        report::lines_table(device, top, style) + gap + &modules
    };
    let tables: Vec<_> = trace.devices.iter().map(table).collect();
    tables.join("\n")
}

/// What `memlab lines --json` prints: the contract's `lines` and `unattributed` without the rest of the report.
#[derive(Serialize)]
struct LinesReport<'a> {
    schema: u32,
    path: &'a str,
    devices: Vec<DeviceLines<'a>>,
}

/// One device of it.
#[derive(Serialize)]
struct DeviceLines<'a> {
    device: u32,
    group_by: &'a str,
    line_rule: &'a str,
    lines: &'a [LineRow],
    lines_left_out: u64,
    unattributed: LineFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<&'a ModulesRow>,
}

impl<'a> DeviceLines<'a> {
    fn of(device: &'a DeviceReport) -> Self {
        Self {
            device: device.device,
            group_by: &device.group_by,
            line_rule: &device.line_rule,
            lines: &device.lines,
            lines_left_out: device.lines_left_out,
            unattributed: device.unattributed,
            modules: device.modules.as_ref(),
        }
    }
}

fn json(trace: &TraceReport) -> String {
    let devices = trace.devices.iter().map(DeviceLines::of).collect();
    report::pretty(&LinesReport { schema: SCHEMA, path: &trace.path, devices })
}

/// RFC 4180; the unattributed share is the row without a place.
fn csv(trace: &TraceReport) -> String {
    const HEAD: &str = "device,file,line,function,module,stack,held_at_peak_bytes,own_peak_bytes,\
        active_peak_on_stack_bytes,inferred_bytes,total_bytes,allocations,live_at_end_bytes\r\n";
    let mut text = HEAD.to_owned();
    for device in &trace.devices {
        for line in &device.lines {
            text += &csv_row(device.device, line);
        }
        let unattributed = LineRow { figures: device.unattributed, ..LineRow::default() };
        text += &csv_row(device.device, &unattributed);
    }
    text
}

fn csv_row(device: u32, row: &LineRow) -> String {
    let LineFigures {
        held_at_peak_bytes,
        own_peak_bytes,
        inferred_bytes,
        total_bytes,
        allocations,
        live_at_end_bytes,
    } = row.figures;
    let stack = row.stack.as_ref().map(|frames| frames.join("\n"));
    format!(
        "{device},{},{},{},{},{},{held_at_peak_bytes},{own_peak_bytes},{},{inferred_bytes},{total_bytes},\
         {allocations},{live_at_end_bytes}\r\n",
        csv_field(row.file.as_deref()),
        row.line.map(|line| line.to_string()).unwrap_or_default(),
        csv_field(row.function.as_deref()),
        csv_field(row.module.as_deref()),
        csv_field(stack.as_deref()),
        row.active_peak_on_stack_bytes,
    )
}

fn csv_field(text: Option<&str>) -> String {
    let text = text.unwrap_or("");
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        let row = LineRow {
            file: Some("a,b.py".to_owned()),
            line: Some(7),
            function: Some("say \"hi\"".to_owned()),
            stack: Some(vec!["x".to_owned(), "y".to_owned()]),
            active_peak_on_stack_bytes: 9,
            figures: LineFigures { held_at_peak_bytes: 5, ..LineFigures::default() },
            ..LineRow::default()
        };
        assert_eq!(csv_row(1, &row), "1,\"a,b.py\",7,\"say \"\"hi\"\"\",,\"x\ny\",5,0,9,0,0,0,0\r\n");
    }
}
