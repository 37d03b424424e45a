//! What is kept is what the analysis said, in every picture.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::*;
use crate::analysis::analyze_file;
use crate::import::{self, ReadOptions};
use crate::report::{self, PICTURE_KINDS};

fn read(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    import::read_path(&path, &ReadOptions::default(), &|_, _| {}).unwrap()
}

fn origin(bytes: u64) -> Origin {
    Origin { name: "a.pickle".to_owned(), format: "torch-snapshot".to_owned(), bytes, ..Origin::default() }
}

fn again(made: &Reduction) -> Trace {
    import::read_bytes(&made.file, &ReadOptions::default()).unwrap()
}

#[test]
fn with_all_columns_every_picture_is_the_same() {
    let options = Options { with_pictures: true, ..Options::default() };
    for name in ["torch/cnn.pickle", "torch/oom.pickle.gz", "torch/gpt.pickle.gz", "emitter/gpt.msgpack"] {
        let trace = read(name);
        let made = reduce(&trace, &origin(u64::MAX)).unwrap();
        assert_eq!(made.columns, Reduction::MOST_COLUMNS);
        let whole = analyze_file("x", &trace, &options).unwrap().report;
        let small = analyze_file("x", &again(&made), &options).unwrap().report;
        for (one, other) in whole.devices.iter().zip(&small.devices) {
            for kind in PICTURE_KINDS {
                let (one, other) =
                    (report::picture_svg(kind, &whole, one), report::picture_svg(kind, &small, other));
                assert!(one == other, "{name} {kind}");
            }
        }
    }
}

#[test]
fn a_large_recording_gets_fewer_columns_until_it_is_small_enough() {
    let trace = read("torch/varlen.default.pickle.gz");
    let whole = reduce(&trace, &origin(u64::MAX)).unwrap();
    let least = reduce(&trace, &origin(0)).unwrap();
    assert!(least.columns < whole.columns && least.file.len() < whole.file.len() / 2, "{}", least.file.len());
    let text = again(&least).warnings.iter().map(|warning| warning.text.clone()).collect::<String>();
    assert!(text.contains(&format!("of 800 pixel columns of a timeline it has {}", least.columns)), "{text}");
    let all = again(&whole).warnings.iter().map(|warning| warning.text.clone()).collect::<String>();
    assert!(!all.contains("pixel columns"), "{all}");
}

#[test]
fn the_same_recording_gives_the_same_bytes_and_survives_being_written_again() {
    let made = reduce(&read("torch/cnn.pickle"), &origin(5)).unwrap();
    assert_eq!(made.file, reduce(&read("torch/cnn.pickle"), &origin(5)).unwrap().file);
    let first = again(&made);
    let mut bytes = Vec::new();
    format::write(&first, &WriteOptions::default(), &mut bytes).unwrap();
    let second = import::read_bytes(&bytes, &ReadOptions::default()).unwrap();
    assert_eq!(first.reduced, second.reduced);
    assert!(first.complete && second.complete);
}

#[test]
fn what_needs_events_is_refused() {
    let small = again(&reduce(&read("torch/cnn.pickle"), &origin(5)).unwrap());
    let window = Options { window: Some(0..5), ..Options::default() };
    let by_file = Options { group_by: crate::tables::GroupBy::File, ..Options::default() };
    for options in [window, by_file] {
        assert!(
            analyze_file("x", &small, &options).unwrap_err().to_string().contains("by line and over all")
        );
    }
    let refusals = [
        super::super::stats(&small, None, None).map(|_| ()),
        super::super::histories(&small, None).map(|_| ()),
        super::super::whatif("x", &small, &super::super::WhatIfOptions::default()).map(|_| ()),
        reduce(&small, &origin(5)).map(|_| ()),
    ];
    for refusal in refusals {
        assert!(refusal.unwrap_err().to_string().contains("the original, a.pickle"));
    }
    let absent = Options { device: Some(7), ..Options::default() };
    assert!(analyze_file("x", &small, &absent).unwrap_err().to_string().contains("device 7"));
}

#[test]
fn curves_that_do_not_belong_together_are_refused() {
    let small = again(&reduce(&read("torch/cnn.pickle"), &origin(u64::MAX)).unwrap());
    let reduced = small.reduced.as_deref().unwrap();
    let refused = |change: fn(&mut Kept)| {
        let mut kept: Kept = rmp_serde::from_slice(&reduced.report).unwrap();
        change(&mut kept);
        let report = rmp_serde::to_vec_named(&kept).unwrap();
        let changed = Reduced { report, ..reduced.clone() };
        analysis("x", &small, &changed, &Options::default())
            .is_err_and(|error| error.to_string().contains("damaged"))
    };
    assert!(!refused(|_| {}));
    assert!(refused(|kept| kept.schema += 1));
    assert!(refused(|kept| kept.devices.clear()));
    assert!(refused(|kept| kept.devices[0].timeline.x.reverse()));
    assert!(refused(|kept| kept.devices[0].timeline.x_end = 0));
    assert!(refused(|kept| _ = kept.devices[0].timeline.allocated.pop()));
    assert!(refused(|kept| _ = kept.devices[0].timeline.bands[0].pop()));
    assert!(refused(|kept| _ = kept.devices[0].timeline.by_cause.pop()));
    assert!(refused(|kept| kept.devices[0].pictures.steps.bands.push(vec![0; 100_000])));
}
