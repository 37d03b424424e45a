//! `report.html`: the answer first, then the pictures, then every table, in one file.
//!
//! Owns the order of the page, its style sheets and scripts, and how large it may get: what has no room is
//! counted and left to the JSON.

use std::fmt::Write as _;

use askama::Template;

use super::blob::{Blob, BlobOptions, Budget, PageDevice, blobs};
use super::device::{Device, Room};
use super::driver;
use super::findings::Findings;
use super::origin::Origin;
use super::page::{Page, page};
use super::text::Prose;
use super::verdict::{Head, Verdicts};
use crate::report::types::TraceReport;
use crate::units::Count;

/// Rows of a table that stand in the page itself, where names are not very long.
const ROWS: usize = 100;
const LEAST_ROWS: usize = 6;
/// Bytes that the sections of all devices and of driver calls may take. Of three megabytes the blobs have two, and scripts, findings
/// and the rest need half of what is left.
const SECTIONS: usize = 500_000;
/// No device gets less: with more devices than fit, the others are counted.
const LEAST_SECTION: usize = 50_000;

const STYLES: [&str; 3] = [
    include_str!("../assets/tokens.css"),
    include_str!("../assets/report.css"),
    include_str!("../assets/views.css"),
];
/// In this order: first what others use.
const SCRIPTS: [&str; 27] = [
    include_str!("../assets/blob.js"),
    include_str!("../assets/words.js"),
    include_str!("../assets/bands.js"),
    include_str!("../assets/flame-tree.js"),
    include_str!("../assets/flame.js"),
    include_str!("../assets/focus.js"),
    include_str!("../assets/legend.js"),
    include_str!("../assets/levels.js"),
    include_str!("../assets/model.js"),
    include_str!("../assets/rows.js"),
    include_str!("../assets/selection.js"),
    include_str!("../assets/state-input.js"),
    include_str!("../assets/state-layout.js"),
    include_str!("../assets/state-map.js"),
    include_str!("../assets/state.js"),
    include_str!("../assets/timeline-axis.js"),
    include_str!("../assets/timeline-boxes.js"),
    include_str!("../assets/timeline-columns.js"),
    include_str!("../assets/timeline-draw.js"),
    include_str!("../assets/timeline-input.js"),
    include_str!("../assets/timeline-overlay.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/view-text.js"),
    include_str!("../assets/views.js"),
    include_str!("../assets/tables.js"),
    include_str!("../assets/theme.js"),
    include_str!("../assets/main.js"),
];

/// How the page was made.
#[derive(Clone, Debug, Default)]
pub struct HtmlOptions {
    /// For example `memlab 0.1.0`.
    pub tool: String,
    /// The command line, as it can be typed again; empty when there was none.
    pub command: String,
}

#[derive(Template)]
#[template(path = "report.html", config = "src/report/assets/askama.toml")]
struct Body {
    head: Head,
    contents: Vec<(String, Prose)>,
    verdicts: Verdicts,
    findings: Findings,
    devices: String,
    left_out: Option<Count>,
    driver: String,
    origin: Origin,
    blobs: String,
}

/// The page for `trace`. `pages` are its devices' events, packed for the page's scripts. Without them the page
/// shows everything but the interactive views.
#[must_use]
pub fn html(trace: &TraceReport, pages: &[PageDevice], options: &HtmlOptions) -> String {
    let blob_options = BlobOptions { tool: &options.tool, budget: Budget::default() };
    around(trace, &blobs(trace, pages, &blob_options), options)
}

/// The page around `blobs`.
fn around(trace: &TraceReport, blobs: &[Blob], options: &HtmlOptions) -> String {
    let share = if trace.devices.is_empty() { SECTIONS } else { SECTIONS / 3 };
    let driver = driver::sections(trace, share);
    let (devices, shown) = devices(trace, SECTIONS.saturating_sub(driver.len()));
    let left_out = (trace.devices.len() - shown) as u64;
    let body = Body {
        head: Head::of(trace),
        contents: contents(trace, shown),
        verdicts: Verdicts::of(trace),
        findings: Findings::of(trace),
        devices,
        left_out: (left_out > 0).then_some(Count(left_out)),
        driver,
        origin: Origin::of(trace, options),
        blobs: elements(blobs),
    };
    let title = format!("{} - memory report", trace.path.rsplit(['/', '\\']).next().unwrap_or_default());
    let title = crate::report::escape::keep_end(&title, 200).into_owned();
    page(Page {
        title: &crate::report::escape::terminal(&title),
        body: &body.render().unwrap_or_default(),
        styles: &STYLES,
        scripts: &SCRIPTS,
    })
}

/// The sections of all devices that fit into `bytes`, and how many those are.
fn devices(trace: &TraceReport, bytes: usize) -> (String, usize) {
    let count = trace.devices.len();
    let mut text = String::new();
    for place in 0..count {
        let left = bytes.saturating_sub(text.len());
        let device = device(trace, place, (left / (count - place)).max(LEAST_SECTION));
        if place > 0 && device.len() > left {
            return (text, place);
        }
        text += &device;
    }
    (text, count)
}

/// The sections of one device, with as many rows as fit into `bytes`; pictures may take half of them.
fn device(trace: &TraceReport, place: usize, bytes: usize) -> String {
    let mut room = Room { rows: ROWS, pictures: bytes / 2 };
    loop {
        let device = Device::of(trace, place, room);
        let text = device.map(|device| device.render().unwrap_or_default()).unwrap_or_default();
        if text.len() <= bytes || room.rows <= LEAST_ROWS {
            return text;
        }
        room.rows = (room.rows / 2).max(LEAST_ROWS);
    }
}

/// Where the navigation leads: the sections of an only device, or one entry for each.
fn contents(trace: &TraceReport, shown: usize) -> Vec<(String, Prose)> {
    let entry = |id: String, name: &str| (id, Prose::new(name));
    let mut contents = vec![entry("verdict".to_owned(), "Verdict"), entry("findings".to_owned(), "Findings")];
    if shown == 1 {
        let sections = [
            ("figures-0", "Figures"),
            ("timeline-0", "Timeline"),
            ("state-0", "State"),
            ("lines-0", "Lines"),
            ("flame-0", "Flame graph"),
            ("steps-0", "Steps"),
            ("fragmentation-0", "Fragmentation"),
        ];
        contents.extend(sections.map(|(id, name)| entry(id.to_owned(), name)));
    } else {
        let devices = trace.devices.iter().take(shown).enumerate();
        contents.extend(
            devices.map(|(place, device)| {
                entry(format!("device-{place}"), &format!("Device {}", device.device))
            }),
        );
    }
    if trace.driver.is_some() {
        contents.push(entry("driver".to_owned(), "Driver calls"));
    }
    contents.push(entry("settings".to_owned(), "Settings"));
    contents
}

/// The blobs as elements that no browser runs.
fn elements(blobs: &[Blob]) -> String {
    let mut out = String::new();
    for Blob { id, text } in blobs {
        writeln!(out, "<script type=\"application/octet-stream\" id=\"{id}\">{text}</script>")
            .expect("writing to a string does not fail");
    }
    out
}

#[cfg(test)]
mod tests;
