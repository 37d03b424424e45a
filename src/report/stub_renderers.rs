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
    pretty(report)
}

/// Stub.
pub fn markdown(trace: &TraceReport, _options: &MarkdownOptions) -> String {
    format!("# {}\n", trace.path)
}

/// Stub.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Stub.
    pub colour: bool,
}

/// Stub.
pub mod escape {
    /// Stub.
    pub fn terminal(text: &str) -> std::borrow::Cow<'_, str> {
        text.replace('\x1b', "\\x1b").replace('\n', "\\n").into()
    }
}

/// Stub.
///
/// # Panics
/// Stub.
pub fn pretty<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("plain values") + "\n"
}

/// Stub.
pub fn text_summary(trace: &TraceReport, style: Style) -> String {
    let (on, off) = if style.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    format!("{on}{}{off}\n", trace.path)
}

/// Stub.
pub fn lines_table(device: &DeviceReport, top: usize, _style: Style) -> String {
    device.lines.iter().take(top).map(|line| line.label() + "\n").collect()
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
