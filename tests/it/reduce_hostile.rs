//! Reduced recordings that are damaged or made to harm: an error or a warning, never a panic, and nothing that a
//! terminal or a browser obeys.

use std::panic::{AssertUnwindSafe, catch_unwind};

use memlab::analysis::{self, Options};
use memlab::error::Error;
use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};
use memlab::model::{Reduced, Trace};
use memlab::report::{self, HtmlOptions, MarkdownOptions, PICTURE_KINDS, Style};
use rayon::prelude::*;

use crate::inputs::{Seeded, read, testdata};
use crate::reduce::{read_small, reduced};

fn small(name: &str) -> Vec<u8> {
    reduced(&read(&testdata(name)), "a.pickle")
}

/// Analyzes and draws everything; answers all that was drawn.
fn drawn(trace: &Trace) -> Result<Vec<String>, Error> {
    let options = Options { with_pictures: true, several_files: true, ..Options::default() };
    let report = analysis::analyze_file("x", trace, &options)?.report;
    let markdown = MarkdownOptions { tool: "t".to_owned(), command: "c".to_owned(), pictures: true };
    let mut texts = vec![
        report::text_summary(&report, Style::default()),
        report::markdown(&report, &markdown),
        report::html(&report, &[], &HtmlOptions::default()),
        report::pretty(&report),
    ];
    for device in &report.devices {
        texts.extend(PICTURE_KINDS.iter().filter_map(|kind| report::picture_svg(kind, &report, device)));
    }
    Ok(texts)
}

fn survives(what: &str, work: impl FnOnce() -> Result<Trace, Error>) -> Option<Trace> {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let trace = work()?;
        drawn(&trace)?;
        Ok::<_, Error>(trace)
    }));
    attempt.unwrap_or_else(|_| panic!("panicked on {what}")).ok()
}

fn read_bytes(bytes: &[u8]) -> Result<Trace, Error> {
    import::read_bytes(bytes, &ReadOptions::default())
}

#[test]
fn a_cut_file_is_an_error_or_known_to_be_cut() {
    let bytes = small("torch/oom.pickle.gz");
    let mut kept = 0;
    for length in (0..bytes.len()).step_by(41) {
        let Some(trace) = survives(&format!("a cut at {length}"), || read_bytes(&bytes[..length])) else {
            continue;
        };
        assert!(trace.reduced.is_some() && !trace.complete, "{length}");
        assert!(trace.warnings.count("truncated") > 0, "{length}");
        kept += 1;
    }
    assert!(kept > 0, "the report comes first, so that a cut end leaves it");
}

#[test]
fn a_flipped_bit_never_gives_other_figures() {
    let bytes = small("torch/cnn.pickle");
    let right = drawn(&read_small(&bytes)).unwrap();
    let mut random = Seeded(5);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let at = random.below(damaged.len());
        damaged[at] ^= 1 << random.below(8);
        let Some(trace) = survives(&format!("a flip at {at}"), || read_bytes(&damaged)) else { continue };
        let said = trace.warnings.count("damaged-chunk") + trace.warnings.count("truncated");
        assert!(said > 0 || drawn(&trace).unwrap() == right, "{at}");
        assert!(trace.reduced.is_some(), "{at}: not reduced any more");
    }
}

#[test]
fn a_made_up_report_is_an_error_or_is_drawn() {
    for name in ["torch/oom.pickle.gz", "torch/cnn.pickle", "emitter/gpt.msgpack"] {
        let trace = read_small(&small(name));
        let report = trace.reduced.as_ref().unwrap().report.clone();
        let drawn = (0..250u64).into_par_iter().filter(|&round| {
            let mut random = Seeded(round);
            let mut changed = Trace { reduced: trace.reduced.clone(), ..Trace::default() };
            let bytes = &mut changed.reduced.as_mut().unwrap().report;
            for _ in 0..=random.below(3) {
                let at = random.below(report.len());
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = 0xff,
                    2 => bytes[at] = random.below(256) as u8,
                    _ => bytes[at] = 0,
                }
            }
            survives(&format!("{name}, round {round}"), || Ok(changed)).is_some()
        });
        assert!(drawn.count() > 20, "{name}: some changes leave a report");
    }
}

/// Writes `trace` and reads it again.
fn written(trace: &Trace) -> Result<Trace, Error> {
    let mut bytes = Vec::new();
    format::write(trace, &WriteOptions::default(), &mut bytes).unwrap();
    read_bytes(&bytes)
}

#[test]
fn reports_that_are_none_are_errors() {
    let trace = read_small(&small("torch/cnn.pickle"));
    let with = |report: Vec<u8>| {
        let reduced = Reduced { report, ..trace.reduced.as_deref().unwrap().clone() };
        Trace { reduced: Some(Box::new(reduced)), ..trace.clone() }
    };
    assert!(written(&with(Vec::new())).is_err(), "no report at all");
    let deep: Vec<u8> = std::iter::repeat_n(0x91, 1 << 20).collect();
    let huge = [&[0xdf][..], &[0xff; 4]].concat();
    for report in [vec![0xc0], vec![0x80], deep, huge] {
        let again = written(&with(report)).unwrap();
        assert!(drawn(&again).unwrap_err().to_string().contains("damaged"));
    }
    let mut both = trace.clone();
    both.devices = read(&testdata("torch/cnn.pickle")).devices;
    both.devices[0].segments = None;
    assert!(written(&both).is_err_and(|error| error.to_string().contains("yet it has events")));
}

#[test]
fn a_report_larger_than_its_file_allows_is_refused() {
    let trace = read_small(&small("torch/cnn.pickle"));
    let bomb = Reduced { report: vec![0; 60 << 20], ..trace.reduced.as_deref().unwrap().clone() };
    let trace = Trace { reduced: Some(Box::new(bomb)), ..trace };
    let mut bytes = Vec::new();
    format::write(&trace, &WriteOptions::default(), &mut bytes).unwrap();
    // Our writer pays for it with bytes that are not compressed.
    assert!(bytes.len() as u64 * 64 + (32 << 20) >= 8 * (60 << 20), "{}", bytes.len());
    let again = read_bytes(&bytes).unwrap();
    assert!(drawn(&again).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn texts_of_the_file_reach_no_terminal_and_no_browser_as_they_are() {
    let trace = read(&testdata("torch/cnn.pickle"));
    let evil = "<script>alert(1)</script>\u{1b}[2J\u{202e}|`.pickle";
    let texts = drawn(&read_small(&reduced(&trace, evil))).unwrap();
    for text in &texts[..3] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:.2000}");
    }
    assert!(!texts[2].contains("<script>alert"), "the page");
    let sandbox = crate::sandbox::Sandbox::new();
    std::fs::write(sandbox.path("s.msgpack"), reduced(&trace, evil)).unwrap();
    for arguments in [&["info", "s.msgpack"][..], &["analyze", "s.msgpack"], &["whatif", "s.msgpack"]] {
        let run = sandbox.run(arguments);
        assert!(run.stdout.contains("alert(1)") || run.stderr.contains("alert(1)"), "{run:?}");
        assert!(!(run.stdout + &run.stderr).contains(['\u{1b}', '\u{202e}']), "{arguments:?}");
    }
}
