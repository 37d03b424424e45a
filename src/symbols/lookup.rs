//! Functions and lines of addresses in one binary: debug data first, the table of symbols for what it leaves open.

use addr2line::{Context, gimli};
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, SymbolKind};

use super::names::{cut, demangled};
use super::outcome::Detail;
use super::{Frame, guard, sections};

/// Frames of one address: real inlining ends before.
const MAX_FRAMES: usize = 64;

/// Bytes of a section as `gimli` reads them.
pub(super) type Slice<'a> = gimli::EndianSlice<'a, gimli::RunTimeEndian>;

/// All debug data of a file.
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// What a file says.
pub(super) struct Answer {
    /// For each address its frames, innermost first.
    pub(super) frames: Vec<Vec<Frame>>,
    pub(super) detail: Detail,
    /// Why debug data that is there could not be used.
    pub(super) fault: Option<String>,
    /// The name of the debug file that the binary says it has.
    pub(super) debug_link: Option<String>,
}

impl Answer {
    /// What makes one answer better than another.
    pub(super) fn rank(&self) -> (Detail, usize) {
        let is_named = |frames: &&Vec<Frame>| frames.iter().any(|frame| frame.function.is_some());
        (self.detail, self.frames.iter().filter(is_named).count())
    }
}

/// Looks `addresses` up, which are sorted.
pub(super) fn answer(file: &object::File<'_>, addresses: &[u64]) -> Answer {
    let (mut frames, mut detail, fault) = match with_lines(file, addresses) {
        Ok(Some(frames)) => (frames, Detail::Lines, None),
        Ok(None) => (vec![Vec::new(); addresses.len()], Detail::Nothing, None),
        Err(what) => (vec![Vec::new(); addresses.len()], Detail::Nothing, Some(what)),
    };
    for table in [file.symbol_table(), file.dynamic_symbol_table()].into_iter().flatten() {
        if table.symbols().any(|symbol| covers(&symbol).is_some()) {
            detail = detail.max(Detail::Symbols);
            name_by_symbols(&table, addresses, &mut frames);
        }
    }
    let link = file.gnu_debuglink().ok().flatten();
    let debug_link = link.and_then(|(name, _)| String::from_utf8(name.to_vec()).ok());
    Answer { frames, detail, fault, debug_link }
}

/// Frames by debug data; nothing if there is none.
fn with_lines(file: &object::File<'_>, addresses: &[u64]) -> Result<Option<Vec<Vec<Frame>>>, String> {
    let sections = sections::load(file)?;
    let endian =
        if file.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big };
    let mut dwarf = sections.borrow(|bytes| Slice::new(bytes, endian));
    if dwarf.units().next().map_err(|error| error.to_string())?.is_none() {
        return Ok(None);
    }
    dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
    guard::check(&dwarf)?;
    by_debug_data(dwarf, addresses).map(Some)
}

/// Frames by debug data that passed the guard.
pub(super) fn by_debug_data(dwarf: Dwarf<'_>, addresses: &[u64]) -> Result<Vec<Vec<Frame>>, String> {
    let context = Context::from_dwarf(dwarf).map_err(|error| error.to_string())?;
    Ok(addresses.iter().map(|&address| frames_at(&context, address)).collect())
}

fn frames_at(context: &Context<Slice<'_>>, address: u64) -> Vec<Frame> {
    // Split debug files (.dwo) are not opened: a binary may name any path.
    let Ok(mut found) = context.find_frames(address).skip_all_loads() else {
        // What is wrong with the functions need not be wrong with the lines.
        let place = context.find_location(address).ok().flatten();
        return place.map(|place| frame(None, Some(place))).into_iter().collect();
    };
    let mut frames = Vec::new();
    while frames.len() < MAX_FRAMES
        && let Ok(Some(next)) = found.next()
    {
        let function = next.function.and_then(|name| name.raw_name().ok().map(|name| demangled(&name)));
        frames.push(frame(function, next.location));
    }
    frames
}

fn frame(function: Option<String>, place: Option<addr2line::Location<'_>>) -> Frame {
    let (file, line) = place.map_or((None, None), |place| (place.file, place.line));
    // Line 0 is code that no line stands for.
    Frame { function, file: file.map(cut), line: line.filter(|&line| line > 0) }
}

/// Gives every address without a function the name of the symbol that covers it.
///
/// One pass over the symbols, and none of them is kept: a library has millions.
fn name_by_symbols(table: &object::SymbolTable<'_, '_>, addresses: &[u64], frames: &mut [Vec<Frame>]) {
    let is_open = |at: &usize| frames[*at].last().is_none_or(|frame| frame.function.is_none());
    let open: Vec<usize> = (0..addresses.len()).filter(is_open).collect();
    // For each open address the last symbol that begins at or before it, and behind the address before.
    let mut nearest = vec![None; open.len()];
    for symbol in table.symbols() {
        let Some((begin, end)) = covers(&symbol) else {
            continue;
        };
        let at = open.partition_point(|&at| addresses[at] < begin);
        if let Some(slot) = nearest.get_mut(at)
            && slot.is_none_or(|(known, until, _)| (begin, end) > (known, until))
        {
            *slot = Some((begin, end, symbol.index()));
        }
    }
    let mut last = None;
    for (at, found) in open.into_iter().zip(nearest) {
        last = found.or(last);
        let covering = last.filter(|(_, end, _)| addresses[at] < *end);
        let Some(symbol) = covering.and_then(|(_, _, index)| table.symbol_by_index(index).ok()) else {
            continue;
        };
        let function = symbol.name_bytes().ok().map(|name| demangled(&String::from_utf8_lossy(name)));
        match frames[at].last_mut() {
            // The outermost frame is the function itself; those before are inlined into it.
            Some(frame) => frame.function = function,
            None => {
                frames[at].extend(function.map(|name| Frame { function: Some(name), ..Frame::default() }));
            }
        }
    }
}

/// Begin and end of the function that `symbol` names, if it does. One without a size says nothing about the
/// addresses behind it.
fn covers(symbol: &object::Symbol<'_, '_>) -> Option<(u64, u64)> {
    let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
    let end = symbol.address().checked_add(symbol.size())?;
    (is_function && symbol.size() > 0).then_some((symbol.address(), end))
}
