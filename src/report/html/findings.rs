//! The findings of a page: what is serious in full, the rest behind a click.
//!
//! Owns which parts of a finding stand where. Order and severity are `told`'s.

use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;

use super::table::Cell;
use super::text::{Name, Prose, Size};
use crate::report::told;
use crate::report::types::{FindingLine, FindingRow, TraceReport};
use crate::units::{Bytes, Count};

/// Bytes that all findings together may take; of what has no room, the number is told.
const ROOM: usize = 100_000;
const MOST_LINES: usize = 5;
const MOST_FIGURES: usize = 40;

/// The section.
#[derive(Template)]
#[template(path = "findings.html", config = "src/report/assets/askama.toml")]
pub(super) struct Findings {
    /// Finished HTML.
    serious: Vec<String>,
    infos: Vec<String>,
    /// Whether there is anything for most rules to look at.
    has_devices: bool,
    left_out: Option<Count>,
}

impl HtmlSafe for Findings {}

impl Findings {
    pub(super) fn of(trace: &TraceReport) -> Self {
        let findings = told::in_order(trace, None);
        let (mut serious, mut infos, mut room) = (Vec::new(), Vec::new(), ROOM);
        for row in &findings {
            let text = Finding::of(row, trace.devices.len() > 1).render().unwrap_or_default();
            let Some(left) = room.checked_sub(text.len()) else { break };
            room = left;
            if told::is_serious(row) { serious.push(text) } else { infos.push(text) }
        }
        let left_out = (findings.len() - serious.len() - infos.len()) as u64;
        let has_devices = !trace.devices.is_empty();
        Self { serious, infos, has_devices, left_out: (left_out > 0).then_some(Count(left_out)) }
    }
}

/// One finding.
#[derive(Template)]
#[template(path = "finding.html", config = "src/report/assets/askama.toml")]
struct Finding {
    severity: &'static str,
    /// Beside the word: seen without colour, and not read aloud.
    sign: &'static str,
    rule: Name,
    device: Option<u32>,
    bytes: u64,
    title: Prose,
    lines: Vec<(Name, Size)>,
    remedy: Option<Prose>,
    saving: Option<Saving>,
    figures: Vec<(Prose, String)>,
    explain: Name,
}

impl Finding {
    fn of(row: &FindingRow, several_devices: bool) -> Self {
        Self {
            severity: row.severity,
            sign: match row.severity {
                "error" => "✕",
                "warning" => "▲",
                _ => "i",
            },
            rule: Name::new(&row.rule),
            device: several_devices.then_some(row.device),
            bytes: row.bytes,
            title: Prose::new(row.title.trim_end_matches('.')),
            lines: row.lines.iter().take(MOST_LINES).map(line).collect(),
            remedy: (!row.remedy.is_empty()).then(|| Prose::new(&row.remedy)),
            saving: Saving::of(row),
            figures: figures(row),
            explain: Name::new(&format!("memlab explain {}", row.rule)),
        }
    }

    fn size(&self) -> Size {
        Size(self.bytes)
    }
}

fn line(line: &FindingLine) -> (Name, Size) {
    (Name::of_finding_line(line), Size(line.bytes))
}

/// What the remedy would save, as the rule counted or replayed it.
struct Saving {
    bytes: Size,
    /// The setting that was replayed.
    conf: Option<Name>,
    /// What the peak would be.
    peak: Option<Size>,
    /// Whether the request that failed would be served.
    fits: bool,
}

impl Saving {
    fn of(row: &FindingRow) -> Option<Self> {
        let figure = |name: &str| row.evidence.get(name).and_then(Value::as_u64);
        let saved = ["remedy_saved_bytes", "peak_saved_bytes", "saved_bytes", "best_line_saved_bytes"];
        let bytes = saved.iter().find_map(|name| figure(name)).unwrap_or(0);
        let is_replayed = row.evidence.contains_key("remedy_saved_bytes");
        let fits = row.severity == "error" && row.evidence.get("remedy_fits") == Some(&Value::Bool(true));
        let conf = row.evidence.get("remedy_conf").and_then(Value::as_str).filter(|_| is_replayed);
        let peak = if is_replayed { "remedy_peak_reserved_bytes" } else { "peak_without_bytes" };
        (bytes > 0 || fits).then(|| Self {
            bytes: Size(bytes),
            conf: conf.filter(|conf| !conf.is_empty()).map(Name::new),
            peak: figure(peak).map(Size),
            fits,
        })
    }

    fn saves(&self) -> bool {
        self.bytes.0 > 0
    }
}

/// The figures that prove it, one a row: name and finished cell. Lists and tables are left to the JSON.
fn figures(row: &FindingRow) -> Vec<(Prose, String)> {
    let is_size = |name: &str| name.ends_with("_bytes") || name.contains("_bytes_");
    let sizes = row.evidence.iter().filter(|(name, _)| is_size(name));
    let others = row.evidence.iter().filter(|(name, _)| !is_size(name));
    let told = |(name, value): (&String, &Value)| {
        let cell = figure(value, is_size(name))?;
        let label = name.strip_suffix("_bytes").unwrap_or(name).replace("_bytes_", " ").replace('_', " ");
        Some((Prose::new(&label), cell.html(false)))
    };
    sizes.chain(others).filter_map(told).take(MOST_FIGURES).collect()
}

fn figure(value: &Value, is_size: bool) -> Option<Cell> {
    Some(match value {
        Value::Bool(yes) => Cell::words(if *yes { "yes" } else { "no" }),
        Value::String(text) if !text.is_empty() => Cell::Name(Name::new(text)),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(bytes), _) if is_size => Cell::Bytes(bytes),
            (_, Some(bytes)) if is_size => Cell::Change(bytes),
            (Some(count), _) => Cell::Count(count),
            (_, Some(count)) => Cell::words(&count.to_string()),
            _ if is_size => Cell::words(&Bytes(number.as_f64()? as u64).to_string()),
            _ => Cell::words(&format!("{:.2}", number.as_f64()?)),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    fn shown(trace: &TraceReport) -> String {
        Findings::of(trace).render().unwrap()
    }

    #[test]
    fn severity_is_a_word_and_infos_are_folded() {
        let text = shown(&fixtures::oom().traces[0]);
        let places = ["class=\"finding error\"", ">Error<", "What to do", "<details class=\"infos\"", "Info"];
        let places = places.map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
        assert!(text.contains("<code><bdi>memlab explain fragmentation</bdi></code>"), "{text}");
    }

    #[test]
    fn what_the_remedy_saves_stands_beside_it() {
        let mut report = fixtures::oom();
        let evidence = &mut report.traces[0].findings[1].evidence;
        for (name, value) in [
            ("remedy_conf", Value::from("expandable_segments:True")),
            ("remedy_fits", true.into()),
            ("remedy_saved_bytes", (3u64 << 20).into()),
            ("remedy_peak_reserved_bytes", (7u64 << 20).into()),
        ] {
            evidence.insert(name.to_owned(), value);
        }
        let text = shown(&report.traces[0]);
        for part in [">3.0 MiB<", ">7.0 MiB<", "<bdi>expandable_segments:True</bdi>", "every request fits"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn no_finding_is_said_and_too_many_are_counted() {
        assert!(shown(&fixtures::normal().traces[0]).contains("No rule fired"));
        let mut report = fixtures::oom();
        let trace = &mut report.traces[0];
        trace.findings = vec![trace.findings[1].clone(); 5_000];
        let text = shown(trace);
        let count = text.matches("class=\"finding error\"").count();
        assert!(count > 20 && text.contains(&format!("{} more findings", Count(5_000 - count as u64))));
        assert!(text.len() < ROOM + 1_000);
    }
}
