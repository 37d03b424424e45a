//! The report as JSON text: the contract that other programs read.
//!
//! Owns layout and the escaping of what a terminal would obey. The keys belong to `types`. Two reports that
//! are equal give the same bytes: keys stand in the order of the types, nothing depends on a hash.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::ranks::RanksReport;
use super::types::Report;

/// `report` as indented JSON with a newline at the end.
#[must_use]
pub fn json(report: &Report) -> String {
    pretty(report)
}

/// As [`json`], with the ranks beside the traces where there are some.
#[must_use]
pub fn json_with_ranks(report: &Report, ranks: Option<&RanksReport>) -> String {
    pretty(&WithRanks { report, ranks })
}

#[derive(Serialize)]
struct WithRanks<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<&'a RanksReport>,
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
    use crate::report::fixtures;

    #[test]
    fn ranks_come_behind_the_traces_and_change_nothing_before() {
        let alone = json(&fixtures::oom());
        assert_eq!(json_with_ranks(&fixtures::oom(), None), alone);
        let job = crate::report::ranks::fixture::job(6);
        let both = json_with_ranks(&fixtures::oom(), Some(&job));
        let before = alone.trim_end().trim_end_matches('}').trim_end();
        assert!(both.starts_with(&format!("{before},\n  \"ranks\": {{")), "{both}");
    }

    #[test]
    fn the_json_of_the_fixed_reports_is_as_agreed() {
        insta::assert_snapshot!("json_oom", json(&fixtures::oom()));
        insta::assert_snapshot!("json_late", json(&fixtures::late()));
        insta::assert_snapshot!("json_recorded", json(&fixtures::recorded()));
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
