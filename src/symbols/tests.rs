//! Against a recorded program whose lines are known (`testdata/driver`), and against copies of it that are not what
//! they should be.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

pub(super) const BUILD_ID: &str = "5476a03533208b93acad7df4f30764ffe696f4fe";

/// Return addresses of `cupti.msgpack`; functions and lines by binutils' `addr2line`, and for those of `leaks.cu`
/// by `expected.txt`.
const KNOWN: [(u64, &str, &str, u32); 12] = [
    (0x2713, "runtime", "leaks.cu", 27),
    (0x2787, "runtime", "leaks.cu", 28),
    (0x2ad1, "runtime", "leaks.cu", 37),
    (0x2c1f, "pools", "leaks.cu", 46),
    (0x2e11, "mappings", "leaks.cu", 59),
    (0x2fea, "mappings", "leaks.cu", 63),
    (0x314b, "arrays", "leaks.cu", 70),
    (0x3245, "failures", "leaks.cu", 76),
    (0x32c5, "main", "leaks.cu", 82),
    (0x3354, "main", "leaks.cu", 84),
    (0x3c3a, "std::thread::_Invoker<std::tuple<void (*)()> >::operator()()", "std_thread.h", 299),
    (
        0x3c1a,
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()",
        "std_thread.h",
        244,
    ),
];

fn leaks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/driver/recorded/leaks")
}

/// The recorded program.
pub(super) fn bytes() -> Vec<u8> {
    fs::read(leaks()).unwrap()
}

fn resolve(places: Vec<Place>, path: &str, build_id: &str) -> Resolution {
    let offsets = KNOWN.map(|(offset, ..)| offset);
    Symbols::new(places).resolve(&Module { path, build_id }, &offsets)
}

fn found(resolution: &Resolution) -> &Found {
    match &resolution.outcome {
        Outcome::Found(found) => found,
        Outcome::Missing(missing) => panic!("{missing:?}"),
    }
}

fn why(resolution: &Resolution) -> String {
    assert!(resolution.frames.len() == KNOWN.len() && resolution.frames.iter().all(Vec::is_empty));
    match &resolution.outcome {
        Outcome::Missing(missing) => missing.why.to_string(),
        Outcome::Found(found) => panic!("{found:?}"),
    }
}

fn assert_lines(resolution: &Resolution) {
    assert_eq!(found(resolution).detail, Detail::Lines);
    for (frames, (offset, function, file, line)) in resolution.frames.iter().zip(KNOWN) {
        let [frame] = frames.as_slice() else { panic!("{offset:#x}: {frames:?}") };
        assert_eq!(frame.function.as_deref(), Some(function), "{offset:#x}");
        assert!(frame.file.as_ref().is_some_and(|path| path.ends_with(&format!("/{file}"))), "{frame:?}");
        assert_eq!(frame.line, Some(line), "{offset:#x}");
    }
}

/// Replaces `from`, once, by `to` of the same length.
fn patch(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|window| window == from).expect("it is there");
    bytes[at..at + to.len()].copy_from_slice(to);
}

/// The program without its debug data, as far as readers can tell.
fn stripped() -> Vec<u8> {
    let mut bytes = bytes();
    patch(&mut bytes, b".debug_info\0", b".other_info\0");
    bytes
}

#[test]
fn offsets_become_functions_and_lines() {
    let path = leaks();
    let path = path.to_str().unwrap();
    let resolution = resolve(vec![Place::Recorded], path, BUILD_ID);
    assert_lines(&resolution);
    assert_eq!(
        *found(&resolution),
        Found { file: leaks(), detail: Detail::Lines, is_checked: true, fault: None }
    );
    assert_lines(&resolve(vec![Place::Recorded], path, &BUILD_ID.to_uppercase()));
}

#[test]
fn offsets_are_return_addresses_in_any_order() {
    let path = leaks();
    let module = Module { path: path.to_str().unwrap(), build_id: BUILD_ID };
    // The byte before 0x2541 is the first of `_start`, a function without lines; nothing is at the others.
    let offsets = [0x2713, 0, 0x2541, u64::MAX, 0x2713, 1, 0x2540];
    let frames = Symbols::new(vec![Place::Recorded]).resolve(&module, &offsets).frames;
    let start = Frame { function: Some("_start".to_owned()), file: None, line: None };
    assert_eq!(frames[0], frames[4]);
    assert_eq!(frames[0][0].line, Some(27));
    assert_eq!(frames[2], [start]);
    for nothing in [1, 3, 5, 6] {
        assert_eq!(frames[nothing], [], "{:#x}", offsets[nothing]);
    }
}

#[test]
fn another_build_is_not_taken() {
    let path = leaks();
    let path = path.to_str().unwrap();
    let other = BUILD_ID.replace('5', "6");
    let folder = Place::Folder(leaks().parent().unwrap().to_owned());
    for place in [Place::Recorded, Place::File(leaks()), folder] {
        assert_eq!(why(&resolve(vec![place.clone()], path, &other)), "another build id");
        let shorter = &BUILD_ID[..BUILD_ID.len() - 2];
        assert_eq!(why(&resolve(vec![place], path, shorter)), "another build id");
    }
    // A file of the user's that is another module's says nothing about this one.
    let resolution = resolve(vec![Place::File(leaks())], "/opt/lib/libother.so", &other);
    assert_eq!(why(&resolution), "no such file");
}

#[test]
fn without_a_build_id_a_trace_leads_nowhere_and_the_user_does() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("leaks");
    let mut bytes = bytes();
    // The note's type 3 becomes another.
    patch(&mut bytes, b"\x14\0\0\0\x03\0\0\0GNU\0", b"\x14\0\0\0\x09\0\0\0GNU\0");
    fs::write(&copy, bytes).unwrap();
    let path = copy.to_str().unwrap();

    assert_eq!(why(&resolve(vec![Place::Recorded], path, "")), "no build id to compare");
    assert_eq!(why(&resolve(vec![Place::Recorded], path, BUILD_ID)), "the file has no build id");
    for place in [Place::File(copy.clone()), Place::Folder(folder.path().to_owned())] {
        let resolution = resolve(vec![place.clone()], "/somewhere/leaks", "");
        assert_lines(&resolution);
        assert!(!found(&resolution).is_checked);
        assert_eq!(why(&resolve(vec![place], "/somewhere/leaks", BUILD_ID)), "the file has no build id");
    }
    // A name alone has to be the same one; and a file that has a build id is not one that had none.
    assert_eq!(why(&resolve(vec![Place::File(copy)], "/somewhere/other", "")), "no such file");
    assert_eq!(why(&resolve(vec![Place::File(leaks())], "/somewhere/leaks", "")), "another build id");
}

#[test]
fn folders_are_searched_by_name_path_and_build_id() {
    let (id, rest) = BUILD_ID.split_at(2);
    for below in [
        "leaks".to_owned(),
        "leaks.debug".to_owned(),
        "some/leaks".to_owned(),
        "srv/bin/leaks".to_owned(),
        format!(".build-id/{id}/{rest}.debug"),
        format!("usr/lib/debug/.build-id/{id}/{rest}.debug"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join(&below);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(leaks(), &copy).unwrap();
        // One that stands in front and is another build does not end the search.
        let wrong = folder.path().join("a/leaks");
        fs::create_dir_all(wrong.parent().unwrap()).unwrap();
        fs::write(&wrong, b"no binary").unwrap();
        let places = vec![Place::Recorded, Place::Folder(folder.path().to_owned())];
        let resolution = resolve(places, "/srv/bin/leaks", BUILD_ID);
        assert_lines(&resolution);
        assert_eq!(found(&resolution).file, copy, "{below}");
    }
    let deeper = tempfile::tempdir().unwrap();
    fs::create_dir_all(deeper.path().join("a/b")).unwrap();
    fs::copy(leaks(), deeper.path().join("a/b/leaks")).unwrap();
    let places = vec![Place::Folder(deeper.path().to_owned())];
    assert_eq!(why(&resolve(places, "/srv/bin/leaks", BUILD_ID)), "no such file");
}

#[test]
fn what_is_no_binary_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leaks");
    let text = path.to_str().unwrap();
    let asked = || why(&resolve(vec![Place::Recorded], text, BUILD_ID));
    assert_eq!(asked(), "no such file");
    fs::write(&path, b"").unwrap();
    assert_eq!(asked(), "not an ELF file");
    fs::write(&path, b"#!/bin/sh\n").unwrap();
    assert_eq!(asked(), "not an ELF file");
    fs::write(&path, b"\x7fELF").unwrap();
    assert!(asked().starts_with("damaged: "), "{}", asked());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(asked(), "not a regular file");
    assert_eq!(why(&resolve(vec![Place::Recorded], "leaks", BUILD_ID)), "no absolute path");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_opened() {
    use std::sync::mpsc;
    use std::time::Duration;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leaks");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let places =
            vec![Place::Recorded, Place::Folder(folder.path().to_owned()), Place::File(path.clone())];
        let resolution = resolve(places, path.to_str().unwrap(), BUILD_ID);
        say.send(why(&resolution)).unwrap();
    });
    // Opening it would wait for a writer for ever.
    assert_eq!(hear.recv_timeout(Duration::from_mins(1)).unwrap(), "not a regular file");
}

#[test]
fn symbols_name_functions_where_there_is_no_debug_data() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("leaks");
    fs::write(&copy, stripped()).unwrap();
    let resolution = resolve(vec![Place::File(copy)], "/srv/bin/leaks", BUILD_ID);
    assert_eq!(found(&resolution).detail, Detail::Symbols);
    let functions: Vec<_> =
        resolution.frames.iter().map(|frames| frames[0].function.as_deref().unwrap()).collect();
    assert_eq!(functions[..4], ["runtime()", "runtime()", "runtime()", "pools()"]);
    assert_eq!(functions[10], "std::thread::_Invoker<std::tuple<void (*)()> >::operator()()");
    assert!(resolution.frames.iter().all(|frames| frames.len() == 1 && frames[0].line.is_none()));
}

#[test]
fn a_stripped_binary_is_followed_to_its_debug_file() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("leaks");
    let mut bytes = stripped();
    // A section that nobody needs any more says where the debug data is.
    let at = {
        use object::{Object as _, ObjectSection as _};
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(".debug_line_str").unwrap().file_range().unwrap().0 as usize
    };
    patch(&mut bytes, b".debug_line_str\0", b".gnu_debuglink\0\0");
    let link = b"data.debug\0\0\x01\x02\x03\x04";
    bytes[at..at + link.len()].copy_from_slice(link);
    fs::write(&copy, &bytes).unwrap();
    let ask = || resolve(vec![Place::Recorded], copy.to_str().unwrap(), BUILD_ID);
    assert_eq!(found(&ask()).detail, Detail::Symbols);

    let target = folder.path().join(".debug/data.debug");
    fs::create_dir(target.parent().unwrap()).unwrap();
    fs::copy(leaks(), &target).unwrap();
    assert_lines(&ask());
    assert_eq!(found(&ask()).file, target);

    // It has to be of the same build.
    let mut other = self::bytes();
    patch(&mut other, b"GNU\0\x54\x76\xa0", b"GNU\0\x54\x76\xa1");
    fs::write(&target, other).unwrap();
    assert_eq!(found(&ask()).detail, Detail::Symbols);
}

#[test]
fn a_file_without_sections_says_nothing() {
    let mut bytes = bytes();
    bytes[40..48].fill(0); // e_shoff
    bytes[58..64].fill(0); // e_shentsize, e_shnum, e_shstrndx
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("leaks");
    fs::write(&copy, bytes).unwrap();
    // Its build id is still found, by the program headers.
    let resolution = resolve(vec![Place::File(copy)], "/srv/bin/leaks", BUILD_ID);
    assert_eq!(found(&resolution).detail, Detail::Nothing);
    assert!(resolution.frames.iter().all(Vec::is_empty));
}

#[test]
fn damaged_debug_data_is_a_fault_and_symbols_remain() {
    let mut bytes = bytes();
    let at = {
        use object::{Object as _, ObjectSection as _};
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(".debug_info").unwrap().file_range().unwrap().0 as usize
    };
    bytes[at + 4] = 0x77; // the version of the first unit
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("leaks");
    fs::write(&copy, bytes).unwrap();
    let resolution = resolve(vec![Place::File(copy)], "/srv/bin/leaks", BUILD_ID);
    assert_eq!(found(&resolution).detail, Detail::Symbols);
    assert!(found(&resolution).fault.as_ref().is_some_and(|what| what.contains("version")));
    assert_eq!(resolution.frames[0][0].function.as_deref(), Some("runtime()"));
}
