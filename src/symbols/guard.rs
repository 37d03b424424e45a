//! Bounds for debug data, held before `addr2line` reads it: it recurses with inlined functions, and joins the
//! path of every file of a unit with its folder's.
//!
//! All units are walked once; nothing is kept. Large files are walked by threads of their own: callers may be workers
//! of rayon's pool, and a pool whose workers wait for this could do none of it.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use addr2line::gimli::{self, Reader as _, Section as _};

use super::lookup::{Dwarf, Slice};

/// How deep entries may be nested in each other. Real ones stay below 100.
const MAX_DEPTH: isize = 1_000;

/// What the paths of one unit's files may have together, in bytes.
const MAX_PATHS: u64 = 64 << 20;

/// From this many bytes of entries on, threads are worth their start.
const LARGE: usize = 8 << 20;

/// How many threads walk a large file at most.
const MAX_THREADS: usize = 8;

/// Whether no unit of `dwarf` passes a bound; if some do, what is wrong with the first.
pub(super) fn check(dwarf: &Dwarf<'_>) -> Result<(), String> {
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    // What is wrong with a header is found again, and told, by who reads the units.
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    let next = AtomicUsize::new(0);
    // Units are taken in order, so the first fault of all is among those where the walkers stopped.
    let walk = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let header = headers.get(at)?;
            if let Err(what) = check_unit(dwarf, *header) {
                return Some((at, what));
            }
        }
    };
    let is_large = dwarf.debug_info.reader().len() >= LARGE;
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let others = if is_large { cores - 1 } else { 0 };
    let fault = thread::scope(|scope| {
        let started: Vec<_> = (0..others).map(|_| scope.spawn(walk)).collect();
        let own = walk();
        // A walker that panicked hands its panic on: the thread that reads the file ends with it.
        let found = started
            .into_iter()
            .filter_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(found).min_by_key(|(at, _)| *at)
    });
    fault.map_or(Ok(()), |(_, what)| Err(what))
}

fn check_unit(dwarf: &Dwarf<'_>, header: gimli::UnitHeader<Slice<'_>>) -> Result<(), String> {
    let Ok(unit) = dwarf.unit(header) else {
        return Ok(());
    };
    let unit = gimli::UnitRef::new(dwarf, &unit);
    if deepest(unit) > MAX_DEPTH {
        return Err(format!("its entries are nested deeper than {MAX_DEPTH}"));
    }
    if path_bytes(unit) > MAX_PATHS {
        return Err(format!("the paths of a unit's files are longer than {MAX_PATHS} bytes"));
    }
    Ok(())
}

/// How deep entries are nested, up to the first that is damaged: nobody gets further.
fn deepest(unit: gimli::UnitRef<'_, Slice<'_>>) -> isize {
    let mut deepest = 0;
    let Ok(mut entries) = unit.entries_raw(None) else {
        return deepest;
    };
    while !entries.is_empty() && deepest <= MAX_DEPTH {
        deepest = deepest.max(entries.next_depth());
        let read = entries.read_abbreviation();
        let is_read = read.and_then(|abbreviation| match abbreviation {
            Some(abbreviation) => entries.skip_attributes(abbreviation.attributes()),
            None => Ok(()),
        });
        if is_read.is_err() {
            break;
        }
    }
    deepest
}

/// How long the paths of all files of a unit become.
fn path_bytes(unit: gimli::UnitRef<'_, Slice<'_>>) -> u64 {
    let Some(program) = &unit.line_program else {
        return 0;
    };
    let header = program.header();
    let length = |value| unit.attr_string(value).map_or(0, |text| text.len() as u64);
    let folder = unit.comp_dir.map_or(0, |folder| folder.len() as u64);
    let lengths = header.file_names().iter().map(|file| {
        let below = file.directory(header).map_or(0, length);
        folder.saturating_add(below).saturating_add(length(file.path_name()))
    });
    lengths.fold(0, u64::saturating_add)
}
