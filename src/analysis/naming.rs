//! Names for the machine code of driver calls.
//!
//! Owns handing frames to `symbols`, file by file, and keeping what came of it in the trace. Which files may be read is the
//! caller's to say.

use rayon::prelude::*;

use crate::model::{NativeName, NativeNames, NativeTables, Trace};
use crate::symbols::{Frame, Module, Outcome, Place, Symbols};

/// Looks up all machine code of `trace` in `places`; does nothing without places.
pub fn name_machine_code(trace: &mut Trace, places: &[Place]) {
    let Some(layer) = trace.driver.as_deref_mut().filter(|_| !places.is_empty()) else { return };
    layer.names = names(&layer.native, places);
}

fn names(native: &NativeTables, places: &[Place]) -> NativeNames {
    let mut frames_of: Vec<Vec<u32>> = vec![Vec::new(); native.modules().len()];
    for (index, frame) in native.frames().iter().enumerate() {
        frames_of[frame.module as usize].push(index as u32);
    }
    let mut names =
        NativeNames { asked: true, of_frame: vec![Vec::new(); native.frames().len()], missing: Vec::new() };
    // Module 0 is no file.
    let wanted: Vec<usize> = (1..frames_of.len()).filter(|&module| !frames_of[module].is_empty()).collect();
    let looked_up: Vec<_> =
        wanted.par_iter().map(|&module| look_up(native, module, &frames_of[module], places)).collect();
    for (&module, (found, missing)) in wanted.iter().zip(looked_up) {
        for (&frame, named) in frames_of[module].iter().zip(found) {
            names.of_frame[frame as usize] = named;
        }
        names.missing.extend(missing.map(|reason| (module as u32, reason)));
    }
    names
}

/// Names of the frames of one module, and why there are none.
fn look_up(
    native: &NativeTables,
    module: usize,
    frames: &[u32],
    places: &[Place],
) -> (Vec<Vec<NativeName>>, Option<String>) {
    let file = &native.modules()[module];
    let offsets: Vec<u64> = frames.iter().map(|&frame| native.frames()[frame as usize].offset).collect();
    let asked = Module { path: &file.path, build_id: &file.build_id };
    let found = Symbols::new(places.to_vec()).resolve(&asked, &offsets);
    let missing = match found.outcome {
        Outcome::Found(file) => file.fault,
        Outcome::Missing(missing) => Some(missing.why.to_string()),
    };
    let named = found.frames.into_iter().map(|names| names.into_iter().map(name).collect());
    (named.collect(), missing)
}

fn name(frame: Frame) -> NativeName {
    let file = frame.file.map(|file| without_detours(&file));
    NativeName { function: frame.function, file, line: frame.line.map(u64::from) }
}

/// `/a/b/../c.cu` as `/a/c.cu`: compilers write paths as they were called with. (Where `b` is a link this is another file's
/// path, but the name that people look for.)
fn without_detours(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        let is_way_back = part == ".." && parts.last().is_some_and(|last| !last.is_empty() && *last != "..");
        if is_way_back {
            parts.pop();
        } else if part != "." {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Options, analyze};
    use crate::driver::samples::recorded;
    use std::path::Path;

    fn recordings() -> Place {
        Place::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/driver/recorded")).unwrap()
    }

    /// What the program printed of each call: `call bytes line fate`.
    fn expected() -> Vec<(u64, u64, bool)> {
        let lines = include_str!("../../testdata/driver/recorded/expected.txt").lines();
        lines
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|words| !matches!(words[0], "address_reserve" | "map") && words[3] != "failed")
            .map(|words| (words[1].parse().unwrap(), words[2].parse().unwrap(), words[3] == "kept"))
            .collect()
    }

    #[test]
    fn every_call_of_the_recorded_program_has_its_line_and_every_leak_is_named() {
        let mut trace = recorded("cupti");
        name_machine_code(&mut trace, &[recordings()]);
        let report = analyze("x", &trace, &Options::default()).unwrap();
        let driver = report.driver.unwrap();
        let host = driver.host.as_ref().unwrap();
        let rows = || driver.devices[0].lines.iter().chain(&host.lines);
        for (bytes, line, kept) in expected() {
            let found: Vec<_> = rows().filter(|row| row.line == Some(line)).collect();
            assert_eq!(found.len(), 1, "line {line}: {found:?}");
            assert!(found[0].file.as_deref().unwrap().ends_with("leaks.cu"), "{found:?}");
            assert_eq!(found[0].total_bytes, bytes * found[0].taken, "line {line}");
            assert_eq!(found[0].kept > 0, kept, "line {line}");
        }
        // The program runs a part of itself a second time, on a thread.
        let twice = rows().find(|row| row.line == Some(27)).unwrap();
        assert_eq!((twice.taken, twice.kept, twice.function.as_deref()), (2, 2, Some("runtime")));
        assert!(driver.refused[0].place.contains("leaks.cu:76"), "{}", driver.refused[0].place);
        let leak = report.findings.iter().find(|finding| finding.rule == "driver-leak").unwrap();
        assert_eq!((leak.lines[0].line, leak.lines[0].bytes), (60, 4 << 20));
        assert!(leak.lines.iter().any(|line| line.line == 27 && line.bytes == 2 * 1_000_001));
    }

    #[test]
    fn detours_in_paths_are_left_out() {
        for (path, short) in [
            ("/srv/inj/gpu/../../testdata/leaks.cu", "/srv/testdata/leaks.cu"),
            ("../src/./a.cu", "../src/a.cu"),
            ("/../a.cu", "/../a.cu"),
            ("a.cu", "a.cu"),
        ] {
            assert_eq!(without_detours(path), short);
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut trace = recorded("cupti");
        name_machine_code(&mut trace, &[]);
        assert!(!trace.driver.as_ref().unwrap().names.asked);
        name_machine_code(&mut trace, &[recordings()]);
        let report = analyze("x", &trace, &Options::default()).unwrap().driver.unwrap();
        let symbols = report.symbols;
        assert!(symbols.asked && symbols.with_line > 0);
        assert!(
            symbols
                .missing
                .iter()
                .any(|module| module.path.ends_with("libcuda.so.1") && module.reason == "no such file")
        );
    }
}
