//! Files as such: compressed, cut, empty, foreign.

use std::io::Write;

use super::super::{ReadOptions, read_bytes, read_path};
use super::{bytes, path, read, words};
use crate::error::Error;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_and_zstd_are_unpacked() {
    let plain = bytes("torch/cnn.pickle");
    let wanted = words(&read(&plain).unwrap());
    assert_eq!(words(&read(&gzip(&plain)).unwrap()), wanted);
    assert_eq!(words(&read(&zstd::encode_all(&plain[..], 1).unwrap()).unwrap()), wanted);
}

#[test]
fn a_cut_compressed_file_gives_what_unpacked() {
    let packed = gzip(&bytes("torch/gpt_cpp.pickle.gz"));
    let trace = read(&packed[..packed.len() * 3 / 4]).unwrap();
    assert!(!trace.complete && trace.event_count() > 1000);
    assert!(trace.warnings.count("truncated") >= 1);
    assert!(matches!(read(&packed[..12]), Err(Error::Corrupt { .. })));
}

#[test]
fn a_bomb_is_an_error_before_it_is_memory() {
    // Zeros are no trace: seen after the first MiB.
    let zeros = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 200 << 20), 1).unwrap();
    assert!(matches!(read(&zeros), Err(Error::UnknownFormat { .. })));
    // What begins like a pickle is cut off by its growth.
    let mut begins = b"\x80\x04".to_vec();
    begins.resize(80 << 20, b'N');
    let bomb = zstd::encode_all(&begins[..], 1).unwrap();
    let options = ReadOptions { max_unpack_ratio: 1, ..ReadOptions::default() };
    assert!(matches!(read_bytes(&bomb, &options), Err(Error::LimitExceeded { .. })));
}

#[test]
fn empty_and_foreign_files_are_named_as_such() {
    assert!(matches!(read(b""), Err(Error::Corrupt { offset: 0, .. })));
    for foreign in [&b"import torch\n"[..], b"\x7fELF\x02\x01", b"PK\x03\x04", b"   ", b"hello ("] {
        assert!(matches!(read(foreign), Err(Error::UnknownFormat { .. })), "{foreign:?}");
    }
    let error = read_path(&path("no such file"), &ReadOptions::default(), &|_, _| {}).unwrap_err();
    assert!(matches!(error, Error::Io(_)));
    assert!(matches!(read_path(&path("public"), &ReadOptions::default(), &|_, _| {}), Err(Error::Io(_))));
}

#[test]
fn files_over_the_limit_are_refused() {
    let options = ReadOptions { max_bytes: 1000, ..ReadOptions::default() };
    let plain = bytes("torch/cnn.pickle");
    assert!(matches!(read_bytes(&plain, &options), Err(Error::LimitExceeded { .. })));
    assert!(matches!(read_bytes(&gzip(&plain), &options), Err(Error::LimitExceeded { .. })));
}

#[test]
fn broken_json_is_an_error_with_its_place() {
    let Err(Error::Corrupt { offset, what }) = read(b"{\"segments\": [],\n \"device_traces\": [}") else {
        panic!("no error");
    };
    assert_eq!(offset, 36);
    assert!(!what.contains("line"), "{what}");
}

#[test]
fn progress_is_told_in_bytes() {
    let told = std::sync::Mutex::new(Vec::new());
    let path = path("torch/gpt_cpp.pickle.gz");
    read_path(&path, &ReadOptions::default(), &|done, total| told.lock().unwrap().push((done, total)))
        .unwrap();
    let told = told.into_inner().unwrap();
    assert!(!told.is_empty() && told.iter().all(|&(done, total)| done <= total && total == 1_383_747));
}
