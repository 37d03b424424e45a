//! Bounds for debug data, held before `addr2line` reads it: it recurses with inlined functions, joins the path of
//! every file of a unit with its folder's, and copies address ranges and lines for everyone who names them.
//!
//! All units are walked once; nothing is kept. Large files are walked by threads of their own: callers may be workers
//! of rayon's pool, and a pool whose workers wait for this could do none of it.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use addr2line::gimli::{self, Reader as _, Section as _};

use super::lookup::{Dwarf, Slice};

/// How deep entries may be nested in each other. Real ones stay below 100.
const MAX_DEPTH: isize = 1_000;

/// What the paths of one unit's files may have together, in bytes.
const MAX_PATHS: u64 = 64 << 20;

/// How many address ranges, and how many bytes of line programs, any file may have.
const SOME_RANGES: u64 = 1 << 20;
const SOME_LINES: u64 = 16 << 20;

/// How many more for each byte that describes them: many entries could name the same long list.
const SHARED: u64 = 4;

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
    let budgets = Budgets::of(dwarf);
    // Units are taken in order, so the first fault of all is among those where the walkers stopped.
    let walk = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let header = headers.get(at)?;
            if let Err(what) = check_unit(dwarf, *header, &budgets) {
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

/// What all units together may have of something that several can name.
struct Budget {
    taken: AtomicU64,
    limit: u64,
}

impl Budget {
    /// Some, and as many again as `bytes` describe if they are named more than once.
    fn of(some: u64, bytes: usize) -> Self {
        let limit = some.saturating_add(SHARED.saturating_mul(bytes as u64));
        Self { taken: AtomicU64::new(0), limit }
    }

    /// Takes `count`; false if there are not as many left.
    fn take(&self, count: u64) -> bool {
        self.taken.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= self.limit
    }
}

/// The budgets of a file.
struct Budgets {
    /// Address ranges, as often as an entry names them.
    ranges: Budget,
    /// Bytes of line programs, as often as a unit names them.
    lines: Budget,
}

impl Budgets {
    fn of(dwarf: &Dwarf<'_>) -> Self {
        let lists = dwarf.ranges.debug_ranges().reader().len() + dwarf.ranges.debug_rnglists().reader().len();
        let lines = dwarf.debug_line.reader().len();
        Self { ranges: Budget::of(SOME_RANGES, lists), lines: Budget::of(SOME_LINES, lines) }
    }
}

fn check_unit(
    dwarf: &Dwarf<'_>,
    header: gimli::UnitHeader<Slice<'_>>,
    budgets: &Budgets,
) -> Result<(), String> {
    let Ok(unit) = dwarf.unit(header) else {
        return Ok(());
    };
    let unit = gimli::UnitRef::new(dwarf, &unit);
    check_entries(unit, &budgets.ranges)?;
    let program = unit.line_program.as_ref().filter(|_| is_of_code(&header));
    if program.is_some_and(|program| !budgets.lines.take(program.header().unit_length() as u64)) {
        return Err(format!("its units have more than {} bytes of line programs", budgets.lines.limit));
    }
    if path_bytes(unit) > MAX_PATHS {
        return Err(format!("the paths of a unit's files are longer than {MAX_PATHS} bytes"));
    }
    Ok(())
}

/// Whether a unit is of code. Those of types, and parts that others include, share a line program with them, and
/// nobody runs it there.
fn is_of_code(header: &gimli::UnitHeader<Slice<'_>>) -> bool {
    use gimli::UnitType::{Partial, SplitType, Type};
    !matches!(header.type_(), Type { .. } | SplitType { .. } | Partial)
}

/// Looks at all entries of a unit, up to the first that is damaged: nobody gets further.
fn check_entries(unit: gimli::UnitRef<'_, Slice<'_>>, ranges: &Budget) -> Result<(), String> {
    let Ok(mut entries) = unit.entries_raw(None) else {
        return Ok(());
    };
    while !entries.is_empty() {
        if entries.next_depth() > MAX_DEPTH {
            return Err(format!("its entries are nested deeper than {MAX_DEPTH}"));
        }
        let Ok(abbreviation) = entries.read_abbreviation() else {
            break;
        };
        let Some(abbreviation) = abbreviation else {
            continue;
        };
        let attributes = abbreviation.attributes();
        if !attributes.iter().any(|attribute| attribute.name() == gimli::DW_AT_ranges) {
            if entries.skip_attributes(attributes).is_err() {
                break;
            }
            continue;
        }
        for attribute in attributes {
            let Ok(attribute) = entries.read_attribute(*attribute) else {
                return Ok(());
            };
            if attribute.name() == gimli::DW_AT_ranges && !has_room(unit, attribute.value(), ranges) {
                return Err(format!("its entries have more than {} address ranges", ranges.limit));
            }
        }
    }
    Ok(())
}

/// Whether the list of ranges that `value` names may be read once more.
fn has_room<'a>(
    unit: gimli::UnitRef<'_, Slice<'a>>,
    value: gimli::AttributeValue<Slice<'a>>,
    ranges: &Budget,
) -> bool {
    let Ok(Some(offset)) = unit.attr_ranges_offset(value) else {
        return true;
    };
    let Ok(mut list) = unit.raw_ranges(offset) else {
        return true;
    };
    let mut count = 0;
    while let Ok(Some(_)) = list.next() {
        count += 1;
    }
    ranges.take(count)
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
