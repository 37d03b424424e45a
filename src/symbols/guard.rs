//! Bounds for debug data, held before `addr2line` reads it: it recurses with inlined functions, and joins the
//! path of every file of a unit with its folder's.
//!
//! All units are walked once, on all cores; nothing is kept.

use addr2line::gimli::{self, Reader as _};
use rayon::prelude::*;

use super::lookup::{Dwarf, Slice};

/// How deep entries may be nested in each other. Real ones stay below 100.
const MAX_DEPTH: isize = 1_000;

/// What the paths of one unit's files may have together, in bytes.
const MAX_PATHS: u64 = 64 << 20;

/// Whether no unit of `dwarf` passes a bound, and if one does, which.
pub(super) fn check(dwarf: &Dwarf<'_>) -> Result<(), String> {
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    // What is wrong with a header is found again, and told, by who reads the units.
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    headers.into_par_iter().try_for_each(|header| {
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
    })
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
