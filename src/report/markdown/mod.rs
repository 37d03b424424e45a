//! `report.md`: everything that a bug ticket needs, under 60,000 characters for any trace.
//!
//! Owns the order of sections (verdict first) and how the room is shared out. A name of the trace never
//! becomes markup; a table that is too long loses whole rows, and says how many.

mod device;
mod driver;
mod driver_tables;
mod findings;
mod live;
mod recorded;
mod table;

use super::escape::{keep_end, keep_start, markdown_code, markdown_text};
use super::types::{DeviceReport, TraceReport};
use super::verdict;
use crate::units::{Bytes, Count, percent};
use table::Page;

/// The page stays below this many bytes, and so below as many characters.
const LIMIT: usize = 59_900;
/// Kept for what follows the devices.
const TAIL: usize = 9_000;
/// A device that gets less room is only counted.
const LEAST_FOR_A_DEVICE: usize = 3_500;
/// Names and sentences of the trace are shown up to this many characters.
const LONGEST_NAME: usize = 200;
const LONGEST_SENTENCE: usize = 600;

/// How the report was made.
#[derive(Clone, Debug, Default)]
pub struct MarkdownOptions {
    /// For example `memlab 0.1.0`.
    pub tool: String,
    /// The command line, as it can be typed again; empty when there was none.
    pub command: String,
    /// Whether the pictures lie beside the page, under the names of [`picture_name`].
    pub pictures: bool,
}

/// The file name of a picture beside the page: `timeline.svg` for device 0, `timeline.1.svg` for device 1.
#[must_use]
pub fn picture_name(kind: &str, device: u32) -> String {
    match device {
        0 => format!("{kind}.svg"),
        device => format!("{kind}.{device}.svg"),
    }
}

/// A name of the trace as code.
fn code(text: &str) -> String {
    markdown_code(&keep_end(text, LONGEST_NAME))
}

/// A sentence that may hold names of the trace.
fn prose(text: &str) -> String {
    markdown_text(&keep_start(text, LONGEST_SENTENCE))
}

/// The page for `trace`.
#[must_use]
pub fn markdown(trace: &TraceReport, options: &MarkdownOptions) -> String {
    let mut page = Page::new(LIMIT - TAIL);
    verdicts(&mut page, trace);
    findings::section(&mut page, trace);
    devices_and_driver(&mut page, trace, options.pictures);
    let mut text = page.into_text();
    let mut tail = Page::new(LIMIT - text.len());
    warnings(&mut tail, trace);
    origin(&mut tail, trace, options);
    text.push_str(&tail.into_text());
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn verdicts(page: &mut Page, trace: &TraceReport) {
    page.heading(1, &format!("CUDA memory of {}", code(&trace.path)));
    if let (true, Some(driver)) = (trace.devices.is_empty(), &trace.driver) {
        driver::verdicts(page, driver);
    } else if trace.devices.is_empty() {
        page.block("**No device has events or segments in this file.**");
    }
    let mut caveats: Vec<String> = verdict::trace_caveats(trace).iter().map(|text| prose(text)).collect();
    for (index, device) in trace.devices.iter().enumerate() {
        if page.room() < LIMIT / 2 {
            page.block(&format!("{} more devices.", trace.devices.len() - index));
            break;
        }
        page.block(&verdict_of(device));
        caveats.extend(verdict::device_caveats(device).iter().map(|text| in_device(trace, device, text)));
    }
    let caveats: Vec<String> = caveats.into_iter().map(|text| format!("Mind: {text}.")).collect();
    page.list(&caveats, 4_000);
}

fn in_device(trace: &TraceReport, device: &DeviceReport, text: &str) -> String {
    match trace.devices.len() {
        1 => prose(text),
        _ => format!("device {}: {}", device.device, prose(text)),
    }
}

/// The verdict in one paragraph: what failed or not, and who held the most.
fn verdict_of(device: &DeviceReport) -> String {
    let mut text =
        format!("**Device {}{}: {}.**", device.device, name_of(device), prose(&verdict::headline(device)));
    if let Some(oom) = device.ooms.last() {
        let last = oom.explanation.last().map(|sentence| format!(" {}", prose(sentence))).unwrap_or_default();
        text.push_str(&format!(" Failed {}.{last}", prose(&verdict::oom_place(oom))));
    }
    if let Some(line) = device.lines.first() {
        let held = line.figures.held_at_peak_bytes;
        text.push_str(&format!(
            " Most at the peak: {} with {} ({}).",
            code(&line.label()),
            Bytes(held),
            percent(held, device.peak.allocated_bytes)
        ));
    }
    text
}

fn name_of(device: &DeviceReport) -> String {
    let name = device.name.as_ref().map(|name| format!(" {}", prose(name))).unwrap_or_default();
    let total = device.total_bytes.map(|total| format!(" ({})", Bytes(total))).unwrap_or_default();
    name + &total
}

/// Driver calls have a third of the room beside devices, and all of it without.
fn devices_and_driver(page: &mut Page, trace: &TraceReport, pictures: bool) {
    let Some(driver) = &trace.driver else { return devices(page, trace, pictures) };
    let room = page.room();
    let mut part = Page::new(if trace.devices.is_empty() { room } else { room / 3 });
    driver::sections(&mut part, driver, pictures);
    let part = part.into_text();
    let mut before = Page::new(room - part.len());
    devices(&mut before, trace, pictures);
    page.append(before);
    page.append(Page::of(part));
}

fn devices(page: &mut Page, trace: &TraceReport, pictures: bool) {
    let shown = (page.room() / LEAST_FOR_A_DEVICE).min(trace.devices.len());
    for (index, device) in trace.devices.iter().take(shown).enumerate() {
        let share = page.room() / (shown - index);
        let mut part = Page::new(share);
        part.heading(
            2,
            &format!("Device {}{}, {} events", device.device, name_of(device), Count(device.events)),
        );
        device::device(&mut part, trace, device, pictures);
        page.append(part);
    }
    if shown < trace.devices.len() {
        page.block(&format!("{} more devices: see report.json.", trace.devices.len() - shown));
    }
}

fn warnings(page: &mut Page, trace: &TraceReport) {
    if verdict::faults(trace).next().is_none() {
        return;
    }
    page.heading(2, "Faults in the file");
    let rows: Vec<_> = verdict::faults(trace)
        .map(|warning| vec![Count(warning.count).to_string(), code(&warning.kind), prose(&warning.text)])
        .collect();
    page.table(&["count", "kind", "meaning"], 1, &rows, &[], 4_000);
}

fn origin(page: &mut Page, trace: &TraceReport, options: &MarkdownOptions) {
    page.heading(2, "Settings, versions, how this was made");
    let conf = if trace.allocator_conf.is_empty() {
        "not set or not recorded".to_owned()
    } else {
        code(&trace.allocator_conf)
    };
    let mut items = Vec::new();
    let events = format!("{} events", Count(trace.events));
    let holds = if trace.has_calls_alone() { "driver calls".to_owned() } else { events };
    if !trace.has_calls_alone() {
        items.push(format!("Allocator configuration: {conf}"));
    }
    items.push(format!("File: {}, {}, {holds}", code(&trace.path), trace.format));
    items.push(format!("Made by {}", prose(&options.tool)));
    if !options.command.is_empty() {
        items.push(format!("Command: {}", markdown_code(&keep_start(&options.command, LONGEST_SENTENCE))));
    }
    items.extend(trace.process.iter().map(|(name, value)| format!("{}: {}", prose(name), code(value))));
    page.list(&items, usize::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, escape, fixtures};

    fn page(report: &Report) -> String {
        let options = MarkdownOptions {
            tool: report.tool.clone(),
            command: "memlab analyze runs/snapshot.pickle -o report".to_owned(),
            pictures: true,
        };
        markdown(&report.traces[0], &options)
    }

    #[test]
    fn the_pages_are_as_agreed() {
        insta::assert_snapshot!("markdown_oom", page(&fixtures::oom()));
        insta::assert_snapshot!("markdown_normal", page(&fixtures::normal()));
        insta::assert_snapshot!("markdown_late", page(&fixtures::late()));
        insta::assert_snapshot!("markdown_recorded", page(&fixtures::recorded()));
    }

    #[test]
    fn the_verdict_comes_first_and_the_unattributed_share_is_there() {
        let text = page(&fixtures::oom());
        let third = text.lines().nth(2).unwrap();
        assert!(third.starts_with("**Device 0 NVIDIA H200 (1.2 GiB): OOM: 400.0 MiB asked"), "{third}");
        assert!(text.contains("Unattributed: 18.0 MiB (3.1 %)"));
    }

    #[test]
    fn five_thousand_long_names_stay_under_60_000_characters() {
        let text = page(&fixtures::many_lines(5_000));
        assert!(text.chars().count() < 60_000, "{}", text.chars().count());
        assert!(text.contains("more rows.") && text.contains("| no line known |"));
        assert!(text.contains("## Settings, versions"));
        assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
    }

    #[test]
    fn many_devices_findings_and_warnings_stay_under_60_000_characters() {
        let mut report = fixtures::many_lines(500);
        let trace = &mut report.traces[0];
        let device = trace.devices[0].clone();
        trace.devices = (0..200).map(|n| DeviceReport { device: n, ..device.clone() }).collect();
        trace.findings = vec![trace.findings[0].clone(); 500];
        trace.warnings = vec![fixtures::late().traces[0].warnings[0].clone(); 5_000];
        trace.process = vec![("name".repeat(900), "value".repeat(900)); 500];
        trace.path = "p".repeat(100_000);
        let text = page(&report);
        assert!(text.chars().count() < 60_000, "{}", text.chars().count());
        assert!(text.contains("more devices"));
    }

    #[test]
    fn hostile_names_become_neither_markup_nor_rows_nor_sequences() {
        let text = page(&fixtures::hostile());
        assert!(!text.contains("<script") && !text.contains("](http"));
        assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("| held at peak")).collect();
        let rows = table.iter().take_while(|line| line.starts_with('|'));
        assert!(rows.clone().count() > 5);
        assert!(rows.clone().all(|line| columns(line) == columns(table[0])), "{text}");
    }

    #[test]
    fn a_file_without_devices_still_gives_a_page() {
        let mut report = fixtures::late();
        report.traces[0].devices.clear();
        assert!(page(&report).contains("No device has events"));
    }
}
