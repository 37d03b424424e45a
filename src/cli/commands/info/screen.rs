//! The facts of a file for people: one aligned line each, nothing that is not there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::facts::{DeviceRow, DriverFacts, FileFacts, ReducedFacts, SegmentsRow};
use crate::report::escape::terminal;
use crate::units::{Bytes, Count, duration_us};

/// Everything about one file. Texts from the file are escaped.
pub(super) fn text(file: &FileFacts) -> String {
    let mut lines = vec![terminal(&file.path).into_owned()];
    let mut add = |name: &str, value: String| lines.push(format!("  {name:<12} {value}"));
    let state = if file.complete { "complete" } else { "incomplete" };
    add("format", format!("{} ({}), {state}", file.format, Bytes(file.file_bytes)));
    if file.unchecked_chunks > 0 {
        let chunks = plural(file.unchecked_chunks, "chunk");
        add("not checked", format!("{chunks} of events, counted by what they state; --verify reads them"));
    }
    add("events", format!("{} on {}", Count(file.events), plural(file.devices.len() as u64, "device")));
    if let Some(driver) = &file.driver {
        add("driver calls", driver_text(driver));
    }
    add("stacks", format!("{} of {}", Count(file.stacks), plural(file.frames, "frame")));
    let marks = file.marks.iter().map(|(kind, &count)| (format!("{kind} mark"), count));
    let others = [
        ("annotation", file.annotations),
        ("named tensor", file.tensors),
        ("holder", file.holders),
        ("sample", file.samples),
    ];
    let counted: Vec<_> = marks
        .chain(others.map(|(noun, count)| (noun.to_owned(), count)))
        .filter(|(_, count)| *count > 0)
        .map(|(noun, count)| plural(count, &noun))
        .collect();
    if !counted.is_empty() {
        add("also", counted.join(", "));
    }
    lines.extend(file.reduced.iter().flat_map(reduced_lines));
    lines.extend(pairs("process", &file.process));
    lines.extend(pairs("settings", &file.settings));
    lines.extend(file.devices.iter().flat_map(device_lines));
    for warning in &file.warnings {
        let times =
            if warning.count > 1 { format!(" ({} times)", Count(warning.count)) } else { String::new() };
        lines.push(format!("  warning: {}{times}", terminal(&warning.text)));
    }
    lines.join("\n") + "\n"
}

fn driver_text(driver: &DriverFacts) -> String {
    let mut text = Count(driver.calls).to_string();
    if driver.failed_calls > 0 {
        text.push_str(&format!(" ({} failed)", Count(driver.failed_calls)));
    }
    text.extend(driver.hook.iter().map(|hook| format!(", seen by {}", terminal(hook))));
    if !driver.complete {
        text.push_str(", not closed");
    }
    text
}

fn reduced_lines(reduced: &ReducedFacts) -> Vec<String> {
    let mut lines = vec![
        format!("  reduced from {}", terminal(&reduced.name)),
        format!(
            "    {}, {}, {} events, by {}",
            terminal(&reduced.format),
            Bytes(reduced.bytes),
            Count(reduced.events),
            terminal(&reduced.reduced_by)
        ),
        format!("    SHA-256 {}", terminal(&reduced.sha256)),
    ];
    lines.extend(reduced.live.iter().map(|live| {
        let event =
            live.event.map_or("before the first event".to_owned(), |event| format!("event {}", Count(event)));
        format!(
            "    device {}, {}, {event}: {} live in {}",
            live.device,
            terminal(&live.moment),
            Bytes(live.bytes),
            plural(live.allocations, "block")
        )
    }));
    lines
}

fn pairs(title: &str, pairs: &BTreeMap<String, Value>) -> Vec<String> {
    let shown = pairs.iter().map(|(name, value)| format!("    {}: {}", terminal(name), value_text(value)));
    let title = (!pairs.is_empty()).then(|| format!("  {title}"));
    title.into_iter().chain(shown).collect()
}

fn device_lines(device: &DeviceRow) -> Vec<String> {
    let name = device.name.as_ref().map(|name| format!(": {}", terminal(name)));
    let size = device.total_bytes.map(|bytes| format!(", {}", Bytes(bytes)));
    let title = format!("  device {}{}{}", device.device, name.unwrap_or_default(), size.unwrap_or_default());
    let mut lines = vec![title];
    let mut add = |name: &str, value: String| lines.push(format!("    {name:<10} {value}"));
    add("events", format!("{}{}", Count(device.events), span(device)));
    for (action, &count) in &device.actions {
        add("", format!("{action:<16} {:>12}", Count(count)));
    }
    add("streams", device.streams.to_string());
    add("at the end", device.segments.as_ref().map_or("not in the file".to_owned(), segments_text));
    lines
}

fn span(device: &DeviceRow) -> String {
    match (device.first_time_us, device.last_time_us) {
        (Some(first), Some(last)) => format!(" in {}", duration_us(last.abs_diff(first))),
        _ => ", without times".to_owned(),
    }
}

fn segments_text(row: &SegmentsRow) -> String {
    format!(
        "{} in {}; {} in {}",
        Bytes(row.bytes),
        plural(row.segments, "segment"),
        Bytes(row.active_bytes),
        plural(row.active_blocks, "active block")
    )
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => terminal(text).into_owned(),
        other => terminal(&other.to_string()).into_owned(),
    }
}

fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", Count(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::input::Outlined;
    use crate::model::{SettingValue, TraceBuilder};

    #[test]
    fn facts_are_escaped_and_aligned() {
        let trace = TraceBuilder::new()
            .setting("PYTORCH_CUDA_ALLOC_CONF", SettingValue::Text("evil\x1b[2J\nline".to_owned()))
            .alloc(0x1000, 512)
            .build();
        let shown = text(&FileFacts::of(&Outlined::for_test("a\nb.pickle", trace)));
        assert!(shown.starts_with("a\\nb.pickle\n  format       memlab-trace (0 B), complete\n"), "{shown}");
        assert!(shown.contains("  settings\n    PYTORCH_CUDA_ALLOC_CONF: evil\\x1b[2J\\nline\n"), "{shown}");
        assert!(
            shown.contains("    events     1 in 0 us\n               alloc                       1\n"),
            "{shown}"
        );
        assert!(shown.contains("at the end not in the file"), "{shown}");
        assert!(!shown.contains("also"), "{shown}");
    }
}
