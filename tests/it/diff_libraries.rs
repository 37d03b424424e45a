//! `memlab diff` within libraries: the decoder's lines, exact sums, other folders and both directions.

use std::sync::LazyLock;

use memlab::analysis::{self, DiffOptions, DiffSide, diff};
use memlab::model::{FrameId, Trace, TraceBuilder};
use memlab::rebuild::rebuild;
use memlab::report::{self, DiffReport, LineDiff, Style};
use memlab::tables::stack_totals;
use proptest::prelude::*;

use crate::diff::{MIB, VARLEN, assert_empty, assert_mirrored, compared, label, peaks, side};
use crate::inputs::{read, testdata};

/// A model of transformers, without and with activation checkpointing.
pub(crate) static LLAMA: LazyLock<DiffReport> =
    LazyLock::new(|| compared(&side("torch/llama.pickle.gz"), &side("torch/llama_ckpt.pickle.gz")));

/// Where below `site-packages` a line is, and its change at the peak.
fn within(line: &LineDiff) -> (String, i64) {
    let (file, number) = label(line);
    let path = file.split_once("site-packages/").map(|(_, path)| path.to_owned()).expect("an installed file");
    (format!("{path}:{number}"), line.figures.delta_bytes.unwrap())
}

#[test]
fn lines_of_libraries_and_their_remainder_add_up_to_the_change_of_the_peak() {
    let libraries = LLAMA.devices[0].library_lines.as_ref().unwrap();
    let rows: i64 = libraries.rows.iter().map(|row| within(row).1).sum();
    assert_eq!((rows, libraries.no_library.delta_bytes), (-379_422_720, Some(-131_072)));
    assert_eq!(rows + -131_072, -379_553_792);
    assert_eq!(peaks(&LLAMA).0, -379_553_792);
    assert_eq!(libraries.grown.delta_bytes + libraries.shrunk.delta_bytes, rows);
    // Each side by itself as well, with the lines that did not change.
    let options = DiffOptions { all: true, ..DiffOptions::default() };
    let (before, after) = (side("torch/llama.pickle.gz"), side("torch/llama_ckpt.pickle.gz"));
    let all = diff(&before, &after, &options);
    let libraries = all.devices[0].library_lines.as_ref().unwrap();
    assert_eq!(libraries.rows_unchanged, 0);
    let figures = || libraries.rows.iter().map(|row| row.figures).chain([libraries.no_library]);
    let sides: (u64, u64) = (
        figures().filter_map(|figures| figures.before_bytes).sum(),
        figures().filter_map(|figures| figures.after_bytes).sum(),
    );
    assert_eq!(sides, (1_030_700_032, 651_146_240));
}

/// Line 175 is the MLP's, which calls `activations.py`; 66 the norms'; 254 to 256 the attention's, which calls
/// `sdpa_attention.py` and the cache; 317 the layer's own.
#[test]
fn with_checkpointing_the_lines_of_libraries_that_shrink_are_the_decoders() {
    let libraries = LLAMA.devices[0].library_lines.as_ref().unwrap();
    let shrunk: Vec<_> = libraries.rows.iter().map(within).filter(|(_, delta)| *delta <= -MIB).collect();
    let shrunk: Vec<_> = shrunk.iter().map(|(line, delta)| (line.as_str(), *delta)).collect();
    let expected = [
        ("transformers/models/llama/modeling_llama.py:175", -129_105_920),
        ("transformers/integrations/sdpa_attention.py:158", -51_419_136),
        ("transformers/models/llama/modeling_llama.py:66", -50_429_952),
        ("transformers/activations.py:103", -33_816_576),
        ("transformers/cache_utils.py:146", -25_165_824),
        ("transformers/cache_utils.py:147", -25_165_824),
        ("transformers/models/llama/modeling_llama.py:317", -25_165_824),
        ("transformers/models/llama/modeling_llama.py:254", -13_303_808),
        ("transformers/models/llama/modeling_llama.py:256", -13_271_040),
        ("transformers/models/llama/modeling_llama.py:255", -12_582_912),
    ];
    assert_eq!(shrunk, expected);
    let of_model = shrunk.iter().filter(|(line, _)| line.contains("modeling_llama.py"));
    assert_eq!(of_model.map(|(_, delta)| delta).sum::<i64>(), -243_859_456);
    // Packages lie in another folder after, and all lines are found again but those of the cache, which
    // transformers turns off together with checkpointing.
    let folder = |place: &Option<report::DiffPlace>| place.clone().and_then(|place| place.file);
    for row in libraries.rows.iter().filter(|row| row.figures.delta_bytes != Some(0)) {
        let [before, after] = [&row.places.before, &row.places.after].map(folder);
        assert!(before.is_some_and(|file| file.starts_with("/opt/venv/")));
        match after {
            Some(file) => assert!(file.starts_with("/opt/torch/.venv/") && !row.moved, "{file}"),
            None => assert!(label(row).0.ends_with("/transformers/cache_utils.py")),
        }
    }
    let text = report::diff_text(&LLAMA, None, Style::plain());
    for line in [
        "  change  within libraries: -361.8 MiB",
        "-123.1 MiB  transformers/models/llama/modeling_llama.py:175 forward",
        "not in a library: -128.0 KiB (241.4 MiB → 241.3 MiB)",
    ] {
        assert!(text.lines().any(|found| found.ends_with(line)), "{line}: {text}");
    }
    let pages = [report::diff_markdown(&LLAMA, |_| None), report::diff_html(&LLAMA)];
    for page in pages {
        assert!(
            page.contains("Within libraries: ") && page.contains("transformers/activations.py:103 forward")
        );
    }
}

/// Bytes held at the peak whose stacks go through the model's loop over its decoder layers, and all others'.
fn below_the_layers(path: &str) -> (u64, u64) {
    let trace = read(&testdata(path));
    let history = rebuild(&trace, &trace.devices[0]);
    let calls_a_layer = |id: &FrameId| {
        let frame = trace.frames.get(*id);
        frame.line == 403 && trace.strings.get(frame.file).ends_with("/llama/modeling_llama.py")
    };
    let (mut below, mut others) = (0, 0);
    for total in stack_totals(&history, history.peaks.allocated.moment) {
        let is_below = trace.stacks.get(total.stack).iter().any(calls_a_layer);
        *(if is_below { &mut below } else { &mut others }) += total.live_bytes;
    }
    (below, others)
}

/// Counted another way, by callers: what shrinks was called by the loop over the layers, all of it.
#[test]
fn what_shrinks_is_below_the_decoders_layers_to_the_byte() {
    let (before, before_others) = below_the_layers("torch/llama.pickle.gz");
    let (after, after_others) = below_the_layers("torch/llama_ckpt.pickle.gz");
    let shrunk = LLAMA.devices[0].library_lines.as_ref().unwrap().shrunk;
    assert_eq!((shrunk.count, shrunk.delta_bytes), (10, -379_426_816));
    assert_eq!(before - after, 379_426_816);
    // Optimizer state of 128 KiB, and 4 KiB of positions that only a model without a cache keeps.
    assert_eq!(before_others - after_others, 131_072 - 4_096);
}

#[test]
fn without_libraries_or_with_a_report_nothing_is_said_of_them() {
    assert!(VARLEN.devices[0].library_lines.is_none());
    let trace = side("torch/llama.pickle.gz");
    let analysed =
        analysis::analyze("llama", &read(&testdata("torch/llama.pickle.gz")), &analysis::Options::default());
    let report =
        report::Report { schema: report::SCHEMA, tool: String::new(), traces: vec![analysed.unwrap()] };
    let report = DiffSide::of_rows("report.json", &report).unwrap();
    let other = side("torch/llama_ckpt.pickle.gz");
    for found in [compared(&report, &other), compared(&other, &report), compared(&trace, &report)] {
        assert!(found.devices[0].library_lines.is_none());
        assert!(!report::diff_text(&found, None, Style::plain()).contains("librar"));
    }
    let found = compared(&trace, &trace);
    assert!(found.same);
    let libraries = found.devices[0].library_lines.as_ref().unwrap();
    assert!(libraries.rows.is_empty() && libraries.rows_unchanged > 20, "{libraries:?}");
    // One side alone in a library: all of it is gone, or new.
    let alone = compared(&trace, &side("torch/cnn.pickle"));
    let libraries = alone.devices[0].library_lines.as_ref().unwrap();
    assert!(
        libraries.rows.iter().all(|row| row.figures.after_bytes == Some(0) && row.places.after.is_none())
    );
    let cnn = alone.devices[0].peak.after.unwrap().allocated_bytes;
    assert_eq!(libraries.no_library.after_bytes, cnn);
}

#[test]
fn top_cuts_lines_of_libraries_as_well_and_the_sums_stay() {
    let (before, after) = (side("torch/llama.pickle.gz"), side("torch/llama_ckpt.pickle.gz"));
    let cut = diff(&before, &after, &DiffOptions { top: Some(3), ..DiffOptions::default() });
    let all = LLAMA.devices[0].library_lines.clone().unwrap();
    let mut cut = cut.devices[0].library_lines.clone().unwrap();
    assert_eq!((cut.rows.len(), cut.rows_left_out), (3, all.rows.len() as u64 - 3));
    assert_eq!(cut.rows, all.rows[..3]);
    (cut.rows, cut.rows_left_out) = (all.rows.clone(), 0);
    assert_eq!(cut, all);
}

/// A program whose allocations are made within a library that is installed in `packages`; those of file 2 are the
/// user's own, called by the library.
fn program(packages: &str, rows: &[(usize, u64, u64)]) -> Trace {
    let mut builder = TraceBuilder::new();
    for (index, &(file, line, size)) in rows.iter().enumerate() {
        let at = 0x7f00_0000_0000 + index as u64 * (64 << 20);
        let inner =
            ["llama/modeling.py", "layers/mlp.py", "trainer.py"].map(|name| format!("{packages}/{name}"));
        let linear = format!("{packages}/../torch/nn/modules/linear.py");
        let users = ("/w/train.py", 3 + file as u64, "step");
        let frames = match file {
            2 => [(linear.as_str(), 134, "forward"), users, (inner[2].as_str(), line, "train")],
            _ => [(linear.as_str(), 134, "forward"), (inner[file].as_str(), line, "forward"), users],
        };
        builder = builder.stack(&frames).segment_alloc(at, 20 << 20).alloc(at, (size + 1) << 20);
    }
    builder.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn both_directions_say_the_same_of_any_libraries_and_all_adds_up(
        one in prop::collection::vec((0usize..3, 1u64..9, 0u64..4), 0..8),
        other in prop::collection::vec((0usize..3, 1u64..9, 0u64..4), 0..8),
        elsewhere in any::<bool>(),
    ) {
        const HERE: &str = "/opt/venv/lib/python3.12/site-packages/transformers";
        const THERE: &str = "/usr/lib/python3/dist-packages/transformers";
        let before = DiffSide::of_trace("a", &program(HERE, &one), None, false).unwrap();
        let folder = if elsewhere { THERE } else { HERE };
        let after = DiffSide::of_trace("b", &program(folder, &other), None, false).unwrap();
        assert_mirrored(&before, &after);
        assert_empty("itself", &compared(&after, &after));
        let report = compared(&before, &after);
        for device in &report.devices {
            let is_within = one.iter().chain(&other).any(|row| row.0 < 2);
            let on_both = device.indices.before.is_some() && device.indices.after.is_some();
            prop_assert_eq!(device.library_lines.is_some(), is_within && on_both);
            let Some(libraries) = &device.library_lines else { continue };
            let rows: i64 = libraries.rows.iter().filter_map(|row| row.figures.delta_bytes).sum();
            prop_assert_eq!(rows + libraries.no_library.delta_bytes.unwrap(), peaks(&report).0);
        }
    }

    #[test]
    fn a_library_of_another_version_in_another_folder_does_not_differ(
        rows in prop::collection::vec((0usize..2, 1u64..9, 0u64..4), 1..8),
        shift in 1u64..30,
    ) {
        let shifted: Vec<_> = rows.iter().map(|&(file, line, size)| (file, line + shift, size)).collect();
        let before = program("/a/site-packages/transformers", &rows);
        let after = program("/b/lib/site-packages/transformers", &shifted);
        let [before, after] =
            [before, after].map(|trace| DiffSide::of_trace("x", &trace, None, false).unwrap());
        let report = compared(&before, &after);
        let libraries = report.devices[0].library_lines.as_ref().unwrap();
        prop_assert!(report.same && libraries.rows.is_empty() && libraries.rows_unchanged > 0, "{libraries:?}");
    }
}
