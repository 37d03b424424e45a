//! Files made to hurt: nothing is run, nothing is exhausted, nothing panics.

use super::{bytes, read, words};
use crate::error::Error;

fn refused(pickle: &[u8]) -> (&'static str, String, u64) {
    match read(pickle) {
        Err(Error::Refused { opcode, argument, offset }) => (opcode, argument, offset),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn code_is_refused_by_name_and_place() {
    let call = "os system".to_owned();
    assert_eq!(
        refused(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."),
        ("STACK_GLOBAL", call.clone(), 14)
    );
    assert_eq!(refused(b"cos\nsystem\n(S'id'\ntR."), ("GLOBAL", call.clone(), 0));
    assert_eq!(refused(b"(ios\nsystem\n."), ("INST", call, 1));
    let bare: [(&[u8], &str); 14] = [
        (b"NNR.", "REDUCE"),
        (b"NNb.", "BUILD"),
        (b"(No.", "OBJ"),
        (b"NN\x81.", "NEWOBJ"),
        (b"NNN\x92.", "NEWOBJ_EX"),
        (b"\x82\x01.", "EXT1"),
        (b"\x83\x01\x01.", "EXT2"),
        (b"\x84\x01\x01\x01\x01.", "EXT4"),
        (b"Pid\n.", "PERSID"),
        (b"NQ.", "BINPERSID"),
        (b"\x8f.", "EMPTY_SET"),
        (b"(\x91.", "FROZENSET"),
        (b"\x97.", "NEXT_BUFFER"),
        (b"N\x98.", "READONLY_BUFFER"),
    ];
    for (pickle, name) in bare {
        let pickle = [b"\x80\x04", pickle].concat();
        assert_eq!(refused(&pickle).0, name);
    }
}

#[test]
fn a_million_nested_lists_are_an_error() {
    let deep =
        [b"\x80\x04".to_vec(), b"](".repeat(1_000_000), b"e".repeat(1_000_000), b".".to_vec()].concat();
    assert!(matches!(read(&deep), Err(Error::Shape { .. } | Error::LimitExceeded { .. })));
    let deep = [b"\x80\x04".to_vec(), b"(".repeat(2_000_000)].concat();
    assert!(matches!(read(&deep), Err(Error::LimitExceeded { .. })));
    let tuples = [b"\x80\x04)".to_vec(), b"\x85".repeat(1_000_000), b".".to_vec()].concat();
    assert!(read(&tuples).is_err());
    assert!(read("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn a_list_in_itself_is_no_trouble() {
    assert!(matches!(read(b"\x80\x04]\x94h\0a."), Err(Error::Shape { .. })));
    let segments = b"\x80\x04}(\x8c\x08segments]\x94h\0au.";
    assert!(matches!(read(segments), Err(Error::Shape { .. })));
    // A stack whose frame is the stack, in a block whose list of blocks holds the segment.
    let knot = b"\x80\x04](}\x94(\x8c\x06frames]\x94h\x01a\x8c\x06blocks](h\0h\0eue.";
    let trace = read(knot).unwrap();
    assert!(trace.warnings.count("odd-value") > 0);
}

#[test]
fn shared_objects_cannot_multiply() {
    // Thirty lists, each ten times the one before: 10^30 items if written out.
    let mut bomb = b"\x80\x04]\x94".to_vec();
    for level in 0..30u8 {
        bomb.extend(b"](");
        for _ in 0..10 {
            bomb.extend([b'h', level]);
        }
        bomb.extend(b"e\x94");
    }
    bomb.push(b'.');
    assert!(read(&bomb).is_err());
    // A segment with many blocks, many times: within the format, beyond any budget.
    let block = b"}(\x8c\x04sizeM\0\x02\x8c\x05stateNu\x94";
    let blocks = [b"](".to_vec(), b"h\0".repeat(50_000), b"e".to_vec()].concat();
    let segment = [&b"}(\x8c\x06blocks"[..], &blocks, b"u\x94"].concat();
    let pickle = [&b"\x80\x04"[..], block, b"0", &segment, b"0](", &b"h\x01".repeat(50_000), b"e."].concat();
    assert!(matches!(read(&pickle), Err(Error::LimitExceeded { .. })));
    // The same with events.
    let event = b"}\x94(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02u";
    let pickle =
        [&b"\x80\x04}(\x8c\x0ddevice_traces]("[..], b"](", event, &b"h\0".repeat(3_000_000), b"eeu."]
            .concat();
    assert!(matches!(read(&pickle), Err(Error::LimitExceeded { .. })));
}

#[test]
fn wild_memo_numbers_and_lengths_are_errors() {
    assert!(matches!(read(b"\x80\x04Nr\xff\xff\xff\xff."), Err(Error::LimitExceeded { .. })));
    assert!(matches!(read(b"\x80\x04h\x07."), Err(Error::Corrupt { offset: 2, .. })));
    for claim in [
        &b"\x80\x04X\xff\xff\xff\xff"[..],
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\x04\x8b\xff\xff\xff\xff",
    ] {
        assert!(matches!(read(claim), Err(Error::Corrupt { .. })));
    }
    assert!(matches!(read(b"\x80\x04\xff."), Err(Error::Corrupt { offset: 2, .. })));
    assert!(matches!(read(b"\x80\x09."), Err(Error::Corrupt { offset: 0, .. })));
}

#[test]
fn a_pickle_cut_anywhere_gives_its_events_or_an_error() {
    for name in ["pickle/protocol4.pickle", "pickle/protocol2.pickle", "pickle/protocol0.pickle"] {
        let whole = bytes(name);
        let all = words(&read(&whole).unwrap());
        let mut partial = 0;
        for length in 0..whole.len() {
            match read(&whole[..length]) {
                Ok(trace) => {
                    assert!(!trace.complete && trace.event_count() > 0);
                    assert_eq!(trace.warnings.count("truncated"), 1);
                    partial += 1;
                    // Every event that is there is one of the whole file.
                    let text = words(&trace);
                    let events = text.lines().skip(1).take(trace.event_count());
                    assert!(
                        name.contains('0') || events.into_iter().all(|line| all.contains(line)),
                        "{name} {length}"
                    );
                }
                Err(Error::Corrupt { .. } | Error::Shape { .. }) => {}
                Err(other) => panic!("{name} cut at {length}: {other}"),
            }
        }
        assert!(partial > 100 || name.contains('0'), "{name}: {partial}");
    }
}

#[test]
fn marks_without_containers_are_closed_too() {
    for cut in [&b"\x80\x04((("[..], b"\x80\x04}((N", b"\x80\x04}((\x8c\x08segments](N(", b"\x80\x04(N0"] {
        assert!(read(cut).is_err());
    }
}

#[test]
fn a_real_file_cut_in_its_events_is_used_without_its_segments() {
    let whole = bytes("torch/cnn.pickle");
    let trace = read(&whole[..whole.len() / 2]).unwrap();
    assert!(!trace.complete);
    assert!((50..382).contains(&trace.event_count()));
    assert!(trace.devices[0].segments.is_none());
    // Segments behind the events, and cut themselves: not whole.
    let whole = bytes("public/impossible_values.pickle.gz");
    let trace = read(&whole[..whole.len() - 900]).unwrap();
    assert!(!trace.complete && trace.event_count() == 1040);
    assert!(trace.devices[0].segments.is_none());
}

#[test]
fn flipped_bytes_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for name in
        ["pickle/protocol4.pickle", "pickle/protocol0.pickle", "pickle/unshared.pickle", "torch/cnn.pickle"]
    {
        let whole = bytes(name);
        for _ in 0..400 {
            let mut broken = whole.clone();
            for _ in 0..=next() % 4 {
                let at = next() % broken.len();
                broken[at] = next() as u8;
            }
            if let Ok(trace) = read(&broken) {
                words(&trace);
            }
        }
    }
}
