//! STUB, dropped at merge.
use std::collections::BTreeMap;

use super::{DeviceReport, Report, TraceReport};

/// Stub.
#[derive(Clone, Debug, Default)]
pub struct MarkdownOptions {
    /// Stub.
    pub top: Option<usize>,
}

/// Stub.
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("a report has no maps with odd keys") + "\n"
}

/// Stub.
pub fn markdown(trace: &TraceReport, _options: &MarkdownOptions) -> String {
    format!("# {}\n", trace.path)
}

/// Stub.
pub fn text_summary(trace: &TraceReport, color: bool) -> String {
    let (on, off) = if color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    format!("{on}{}{off}\n", trace.path)
}

/// Stub.
pub fn lines_table(device: &DeviceReport, top: Option<usize>, _color: bool) -> String {
    device.lines.iter().take(top.unwrap_or(usize::MAX)).map(|line| line.label() + "\n").collect()
}

/// Stub.
pub fn timeline_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    format!("<svg><!-- {} {} --></svg>\n", trace.path, device.device)
}

/// Stub.
pub fn fragmentation_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    format!("<svg><!-- {} {} --></svg>\n", trace.path, device.device)
}

/// Stub.
pub fn summary_table(device: u32, stats: &BTreeMap<String, u64>) -> String {
    format!("device {device}\n{stats:?}\n")
}
