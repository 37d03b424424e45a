//! The report as JSON text: the contract that other programs read.
//!
//! Owns layout and the escaping of what a terminal would obey. The keys belong to `types`. Two reports that
//! are equal give the same bytes: keys stand in the order of the types, nothing depends on a hash.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::ranks::RanksReport;
use super::types::{Report, SCHEMA, TraceReport};

/// `report` as indented JSON with a newline at the end.
#[must_use]
pub fn json(report: &Report) -> String {
    pretty(report)
}

/// What stands between two traces of a [`json_frame`].
pub const JSON_BETWEEN: &str = ",\n    ";

/// One trace as it stands in the list of a report's JSON: for documents that are put together trace by trace, since
/// there are too many to hold them all. [`json_frame`] goes around them, [`JSON_BETWEEN`] between them.
#[must_use]
pub fn json_trace(trace: &TraceReport) -> String {
    // No line begins within a text of JSON, so what is deeper is only indented further.
    pretty(trace).trim_end().replace('\n', "\n    ")
}

/// What stands before the first trace and behind the last. Files that are one job have the key `ranks`, those of
/// several the key `jobs`; neither key is there without.
#[must_use]
pub fn json_frame(tool: &str, ranks: Option<&RanksReport>, jobs: &[RanksReport]) -> (String, String) {
    let none = Report { schema: SCHEMA, tool: tool.to_owned(), traces: Vec::new() };
    let document = pretty(&WithRanks { report: &none, ranks, jobs });
    // The first such key is the report's own: before it stand only a number and memlab's name.
    let (before, behind) = document.split_once("\"traces\": []").unwrap_or((&document, ""));
    (format!("{before}\"traces\": [\n    "), format!("\n  ]{behind}"))
}

#[derive(Serialize)]
struct WithRanks<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<&'a RanksReport>,
    #[serde(skip_serializing_if = "<[RanksReport]>::is_empty")]
    jobs: &'a [RanksReport],
}

/// Any plain value as indented JSON with a newline at the end. Text that a terminal would obey (C1 and
/// bidirectional controls, which JSON itself allows) is written as `\u` escapes: the same value, harmless.
///
/// # Panics
/// Never for values made of structs, lists, numbers and text-keyed maps, which are all that memlab prints.
#[must_use]
pub fn pretty<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::with_capacity(4096);
    let formatter = Harmless { pretty: PrettyFormatter::new() };
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("plain values with text keys always serialise into memory");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8 only")
}

/// `PrettyFormatter` that also escapes invisible characters beyond ASCII.
struct Harmless<'a> {
    pretty: PrettyFormatter<'a>,
}

impl Formatter for Harmless<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.is_ascii() && !fragment.contains('\x7f') {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if super::escape::is_invisible(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{driver_fixture, fixtures};

    #[test]
    fn a_document_put_together_is_that_of_the_whole_report() {
        let mut report = fixtures::oom();
        report.traces.extend(fixtures::hostile().traces);
        report.traces.extend(fixtures::recorded().traces);
        let join = |ranks, jobs| {
            let (before, behind) = json_frame(&report.tool, ranks, jobs);
            let traces: Vec<String> = report.traces.iter().map(json_trace).collect();
            before + &traces.join(JSON_BETWEEN) + &behind
        };
        assert_eq!(join(None, &[]), json(&report));
        let job = crate::report::ranks::fixture::job(6);
        let with = |ranks, jobs| pretty(&WithRanks { report: &report, ranks, jobs });
        assert_eq!(join(Some(&job), &[]), with(Some(&job), &[]));
        let jobs = [job.clone(), job.clone()];
        assert_eq!(join(None, &jobs), with(None, &jobs));
        let alone = json(&report);
        let before = alone.trim_end().trim_end_matches('}').trim_end();
        assert!(join(None, &jobs).starts_with(&format!("{before},\n  \"jobs\": [")));
    }

    #[test]
    fn the_json_of_the_fixed_reports_is_as_agreed() {
        insta::assert_snapshot!("json_oom", json(&fixtures::oom()));
        insta::assert_snapshot!("json_late", json(&fixtures::late()));
        insta::assert_snapshot!("json_recorded", json(&fixtures::recorded()));
    }

    #[test]
    fn driver_calls_have_a_key_of_their_own_and_none_where_there_are_none() {
        let report = driver_fixture::leaks();
        insta::assert_snapshot!("json_driver_leaks", json(&report));
        let driver = report.traces[0].driver.as_ref().unwrap();
        let text = pretty(driver);
        let again: crate::report::DriverReport = serde_json::from_str(&text).unwrap();
        assert_eq!(pretty(&again), text);
        let beside = json(&driver_fixture::full());
        let value: serde_json::Value = serde_json::from_str(&beside).unwrap();
        assert!(value["traces"][0]["driver"]["devices"][0]["join"]["matched"].is_u64());
        assert!(!json(&fixtures::oom()).contains("\"driver\""));
    }

    /// Every key of `value`, however deep.
    fn keys(value: &serde_json::Value) -> std::collections::BTreeSet<&str> {
        let (mut keys, mut left) = (std::collections::BTreeSet::new(), vec![value]);
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::Object(fields) => {
                    keys.extend(fields.keys().map(String::as_str));
                    left.extend(fields.values());
                }
                serde_json::Value::Array(entries) => left.extend(entries),
                _ => {}
            }
        }
        keys
    }

    #[test]
    fn every_key_of_driver_calls_is_explained() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reading-a-report.md");
        let page = std::fs::read_to_string(page).unwrap();
        let section = page.split("\n## ").find(|part| part.starts_with("What nvidia-smi sees")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&json(&driver_fixture::full())).unwrap();
        let keys = keys(&value["traces"][0]["driver"]);
        let missing: Vec<_> = keys.iter().filter(|key| !section.contains(&format!("`{key}`"))).collect();
        assert!(keys.len() > 50 && missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_same_report_gives_the_same_bytes_and_one_final_newline() {
        let text = json(&fixtures::normal());
        assert_eq!(text, json(&fixtures::normal()));
        assert!(text.ends_with("}\n") && !text.ends_with("\n\n"));
    }

    #[test]
    fn hostile_names_come_back_exactly_but_reach_no_terminal() {
        let text = json(&fixtures::hostile());
        assert!(!text.chars().any(|c| c != '\n' && super::super::escape::is_invisible(c)));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["traces"][0]["path"], fixtures::HOSTILE);
        assert_eq!(pretty(&"\u{e0041}\u{7f}"), "\"\\udb40\\udc41\\u007f\"\n");
    }

    #[test]
    fn the_keys_of_the_contract_are_there() {
        let value: serde_json::Value = serde_json::from_str(&json(&fixtures::oom())).unwrap();
        let device = &value["traces"][0]["devices"][0];
        for key in ["peak", "end", "initial", "fragmentation", "lines", "unattributed", "ooms", "steps"] {
            assert!(!device[key].is_null(), "{key}");
        }
        assert!(device["lines"][0]["held_at_peak_bytes"].is_u64());
        assert!(device["fragmentation"]["at_oom"]["stranded_bytes"].is_u64());
        assert!(device["timeline"].is_null());
    }
}
