//! Recorded files against what CPython says of them.

use std::collections::BTreeSet;

use super::{bytes, read, read_file};

/// Events, sum of sizes, xor of addresses, sum of times, distinct stacks, segments, blocks; computed with
/// `pickle.load` and plain Python loops.
type Figures = (usize, u128, u64, i128, usize, usize, usize);

const KNOWN: [(&str, Figures); 6] = [
    (
        "public/pure_cache.pickle",
        (97, 27_993_309_980, 139_776_901_121_024, 171_950_803_214_544_430, 42, 9, 20),
    ),
    ("public/small.pickle", (713, 92_633_304, 30_153_009_152, 1_246_685_617_917_490_154, 22, 2, 13)),
    (
        "torch/annotated.pickle",
        (2_100, 6_450_627_212, 67_631_963_648, 3_771_520_943_180_835_941, 31, 34, 146),
    ),
    ("torch/cnn.pickle", (382, 3_221_530_203, 298_151_936, 686_057_577_363_756_782, 22, 13, 41)),
    (
        "torch/gpt_cpp.pickle.gz",
        (7_623, 80_594_690_828, 140_530_536_473_088, 13_690_620_366_193_825_907, 105, 55, 361),
    ),
    ("torch/streams.pickle", (554, 4_704_137_936, 0, 994_963_127_433_645_806, 9, 2, 3)),
];

#[test]
fn figures_are_those_of_python() {
    for (name, wanted) in KNOWN {
        let trace = read_file(name);
        let device = &trace.devices[0];
        let events = &device.events;
        let segments = device.segments.as_ref().unwrap();
        let figures: Figures = (
            events.len(),
            events.sizes.iter().map(|&size| u128::from(size)).sum(),
            events.addresses.iter().fold(0, |all, address| all ^ address),
            events.times_us.iter().map(|&time| i128::from(time)).sum(),
            events.stacks.iter().collect::<BTreeSet<_>>().len(),
            segments.len(),
            segments.iter().map(|segment| segment.blocks.len()).sum(),
        );
        assert_eq!(figures, wanted, "{name}");
        assert!(trace.complete && trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
    }
}

#[test]
fn other_peoples_files_are_read() {
    let files: [(&str, usize, usize); 6] = [
        ("no_events", 0, 12),
        ("no_history", 0, 3),
        ("one_event", 1, 259),
        ("pure_cache", 97, 9),
        ("settings_conflict", 0, 2),
        ("small", 713, 2),
    ];
    for (name, events, segments) in files {
        let trace = read_file(&format!("public/{name}.pickle"));
        assert_eq!(trace.event_count(), events, "{name}");
        assert_eq!(trace.devices[0].segments.as_ref().unwrap().len(), segments, "{name}");
        assert!(trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
    }
}

#[test]
fn impossible_values_are_reported() {
    let trace = read_file("public/impossible_values.pickle.gz");
    assert_eq!(trace.event_count(), 1040);
    assert_eq!(trace.warnings.count("impossible-value"), 20);
}

#[test]
fn the_oldest_form_has_stacks_and_addresses() {
    let trace = read_file("public/oldest_form_full.pickle.gz");
    assert_eq!((trace.event_count(), trace.devices[0].segments.as_ref().unwrap().len()), (1, 176));
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
    let block = trace.devices[0].segments.as_ref().unwrap()[0].blocks[0];
    assert_eq!((block.address, block.requested_bytes), (140_037_408_686_080, 33_554_432));
    assert!(
        super::stack(&trace, block.stack)
            .starts_with("/home/user/project/pytorch_backend.py:190 allocate < ")
    );
}

#[test]
fn json_of_the_same_schema_is_read() {
    let trace = read(&bytes("cases/C10_spurious_oom_pending.json")).unwrap();
    assert_eq!(trace.event_count(), 8);
    assert_eq!(trace.process.devices[0].total_bytes, Some(85_899_345_920));
    assert!(trace.warnings.is_empty());
}
