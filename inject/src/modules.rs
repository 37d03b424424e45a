//! What is loaded into the process, and where.
//!
//! Owns the list that the dynamic linker gives: files, build ids, ranges of addresses. Holds no lock of ours while
//! it asks, for the linker's own lock is held in constructors that may call CUDA.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use libc::{Elf64_Phdr, dl_phdr_info};

/// A loaded file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Module {
    /// As the linker names it; the executable's path for the main program.
    pub(crate) path: PathBuf,
    /// The build id in hexadecimal digits; empty if there is none.
    pub(crate) build_id: String,
    /// What was added to the file's virtual addresses.
    pub(crate) bias: u64,
}

/// One range of addresses of a module.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    module: usize,
}

/// Where a file's tables for unwinding are mapped, in addresses of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnwindTables {
    /// All that is mapped of the file.
    pub(crate) code: std::ops::Range<u64>,
    /// `.eh_frame_hdr`.
    pub(crate) header: std::ops::Range<u64>,
    /// From `.eh_frame` to the end of its segment.
    pub(crate) frames: std::ops::Range<u64>,
}

/// All loaded files at one moment.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The linker's counts of files that came and went.
    pub(crate) generation: (u64, u64),
    pub(crate) modules: Vec<Module>,
    /// As long as `modules`.
    pub(crate) tables: Vec<Option<UnwindTables>>,
    ranges: Vec<Range>,
}

impl Loaded {
    /// Asks the linker.
    pub(crate) fn now() -> Self {
        let mut loaded = Self::default();
        // SAFETY: the callback gets the pointer handed over here and is done with it on return.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
        loaded.ranges.sort_unstable_by_key(|range| range.start);
        loaded
    }

    /// Index of the module that has `address`, and the virtual address in its file.
    pub(crate) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let next = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        (address < range.end).then(|| (range.module, address.wrapping_sub(self.modules[range.module].bias)))
    }

    /// Paths of loaded files whose name begins with `prefix`.
    pub(crate) fn named<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = &'s PathBuf> + 's {
        let paths = self.modules.iter().map(|module| &module.path);
        paths.filter(move |path| {
            path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        })
    }
}

/// The linker's counts of files that came and went: while they stay, so does the list.
pub(crate) fn generation() -> (u64, u64) {
    extern "C" fn first(info: *mut dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the linker's record, and the pair handed over below.
        unsafe { *out.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0, 0);
    // SAFETY: the callback writes through the pointer before the call returns.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counts).cast()) };
    counts
}

extern "C" fn add(info: *mut dl_phdr_info, _: usize, loaded: *mut c_void) -> c_int {
    // SAFETY: the linker's record, good during the callback, and the list handed over by `now`.
    let (info, loaded) = unsafe { (&*info, &mut *loaded.cast::<Loaded>()) };
    loaded.generation = (info.dlpi_adds, info.dlpi_subs);
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the linker says that so many headers lie there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let module = loaded.modules.len();
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        loaded.ranges.push(Range { start, end: start.wrapping_add(header.p_memsz), module });
    }
    loaded.tables.push(unwind_tables(info, headers));
    loaded.modules.push(Module {
        path: path_of(info, module == 0),
        build_id: build_id(info, headers),
        bias: info.dlpi_addr,
    });
    0
}

fn path_of(info: &dl_phdr_info, is_first: bool) -> PathBuf {
    let name = if info.dlpi_name.is_null() {
        &[][..]
    } else {
        // SAFETY: the linker's names are terminated.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    if name.is_empty() && is_first {
        return std::env::current_exe().unwrap_or_default();
    }
    PathBuf::from(OsStr::from_bytes(name))
}

/// The tables, where they are in the form that linkers write.
fn unwind_tables(info: &dl_phdr_info, headers: &[Elf64_Phdr]) -> Option<UnwindTables> {
    /// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`.
    const RELATIVE: u8 = 0x1b;
    let range = |header: &Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(range);
    let header = range(headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?);
    loads().find(|load| {
        load.contains(&header.start) && header.end <= load.end && header.end - header.start >= 8
    })?;
    // SAFETY: eight mapped bytes.
    let start = unsafe { std::slice::from_raw_parts(header.start as *const u8, 8) };
    if start[..2] != [1, RELATIVE] {
        return None;
    }
    let step = i32::from_ne_bytes([start[4], start[5], start[6], start[7]]);
    let frames = (header.start + 4).wrapping_add_signed(step.into());
    let end = loads().find(|load| load.contains(&frames))?.end;
    let code = loads().map(|load| load.start).min()?..loads().map(|load| load.end).max()?;
    Some(UnwindTables { code, header, frames: frames..end })
}

/// The note of type 3 by `GNU` in a file's notes, which are mapped with it.
fn build_id(info: &dl_phdr_info, headers: &[Elf64_Phdr]) -> String {
    const GNU_BUILD_ID: u32 = 3;
    let is_mapped = |note: &Elf64_Phdr| {
        headers.iter().any(|load| {
            load.p_type == libc::PT_LOAD
                && load.p_vaddr <= note.p_vaddr
                && note.p_vaddr.saturating_add(note.p_memsz) <= load.p_vaddr.saturating_add(load.p_memsz)
        })
    };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE && is_mapped(header)) {
        let at = info.dlpi_addr.wrapping_add(header.p_vaddr) as *const u8;
        // SAFETY: within a range that the linker has mapped.
        let mut rest = unsafe { std::slice::from_raw_parts(at, header.p_memsz as usize) };
        while let Some((kind, name, value, behind)) = note(rest) {
            if kind == GNU_BUILD_ID && name == b"GNU\0" {
                return value.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
            }
            rest = behind;
        }
    }
    String::new()
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('?')
}

/// Type, name and value of a note, and the bytes behind it.
type Note<'b> = (u32, &'b [u8], &'b [u8], &'b [u8]);

/// The first note.
fn note(bytes: &[u8]) -> Option<Note<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let (name, value) = (word(0)? as usize, word(4)? as usize);
    let value_at = 12 + name.next_multiple_of(4);
    let end = value_at + value.next_multiple_of(4);
    Some((word(8)?, bytes.get(12..12 + name)?, bytes.get(value_at..value_at + value)?, bytes.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_is_found_in_the_own_file() {
        let loaded = Loaded::now();
        let address = own_code_is_found_in_the_own_file as *const () as u64;
        let (module, offset) = loaded.find(address).expect("a module");
        let module = &loaded.modules[module];
        assert_eq!(module.path, std::env::current_exe().expect("a path"));
        assert_eq!(offset, address - module.bias);
        assert_eq!(loaded.find(1), None);
        assert_eq!(loaded.generation, generation());
        assert_eq!(loaded.named("libc.so").count(), 1);
    }

    #[test]
    fn notes_that_end_early_are_no_notes() {
        let whole = [4u32, 2, 3].map(u32::to_ne_bytes).concat();
        let whole = [&whole[..], b"GNU\0", &[0xab, 0xcd, 0, 0]].concat();
        assert_eq!(note(&whole), Some((3, &b"GNU\0"[..], &[0xab, 0xcd][..], &[][..])));
        for length in 0..whole.len() {
            assert_eq!(note(&whole[..length]), None, "{length}");
        }
    }
}
