//! Binaries that are damaged, or made to be hard to read.

use addr2line::gimli;

use super::tests::{BUILD_ID, bytes};
use super::*;

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Reads `bytes` as the program, whatever its build id; panics with what it panics with.
fn read_anyway(bytes: &[u8]) -> Option<usize> {
    let probes: Vec<u64> = (0x2540..0x3d64).step_by(101).collect();
    let work = || {
        let file = binary::parse(bytes).ok()?;
        let _ = binary::check(&file, BUILD_ID);
        Some(lookup::answer(&file, &probes).frames.iter().map(Vec::len).sum())
    };
    on_own_thread(work).expect("no panic")
}

#[test]
fn damage_anywhere_is_no_panic() {
    let whole = bytes();
    let known = read_anyway(&whole).unwrap();
    assert!(known > 50, "{known}");
    let mut dice = Dice(1);
    let mut read = 0;
    for round in 0..600 {
        let mut bytes = whole.clone();
        // Every third time only in the debug data, every third time in headers.
        let (from, until) = match round % 3 {
            0 => (0, bytes.len()),
            1 => (0x6075, 0x1_6507),
            _ => (0x1_92f0, bytes.len()),
        };
        for _ in 0..=dice.below(8) {
            bytes[from + dice.below(until - from)] = dice.below(256) as u8;
        }
        read += usize::from(read_anyway(&bytes).is_some());
    }
    assert!(read > 300, "too much was refused: {read}");
    for at in (0..whole.len()).step_by(1_009) {
        read_anyway(&whole[..at]);
    }
}

/// One unit of hand-made debug data: a function at 0x1000..0x2000, and `depth` others inlined into each other in it,
/// all over the same addresses.
fn nested(depth: usize) -> [Vec<u8>; 2] {
    let abbreviations = [
        // A compile unit and a subprogram with children, DW_AT_low_pc as an address, DW_AT_high_pc as 4 bytes.
        &[1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0][..],
        &[2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[3, 0x1d, 1, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[0],
    ];
    let place = [&0x1000_u64.to_le_bytes()[..], &0x1000_u32.to_le_bytes()].concat();
    let mut unit = vec![4, 0, 0, 0, 0, 0, 8]; // version 4, abbreviations at 0, addresses of 8 bytes
    for code in [1, 2].into_iter().chain(std::iter::repeat_n(3, depth)) {
        unit.push(code);
        unit.extend(&place);
    }
    unit.extend(std::iter::repeat_n(0, depth + 2));
    let info = [&(unit.len() as u32).to_le_bytes()[..], &unit].concat();
    [abbreviations.concat(), info]
}

fn dwarf(sections: &[(gimli::SectionId, Vec<u8>)]) -> lookup::Dwarf<'_> {
    let load = |id| {
        let section = sections.iter().find(|(name, _)| *name == id).map_or(&[][..], |(_, bytes)| bytes);
        Ok::<_, ()>(lookup::Slice::new(section, gimli::RunTimeEndian::Little))
    };
    gimli::Dwarf::load(load).unwrap()
}

#[test]
fn inlining_is_followed_to_a_bound() {
    let of = |depth: usize| {
        let [abbreviations, info] = nested(depth);
        [(gimli::SectionId::DebugAbbrev, abbreviations), (gimli::SectionId::DebugInfo, info)]
    };
    for (depth, frames) in [(0, 1), (5, 6), (63, 64), (900, 64)] {
        let sections = of(depth);
        let dwarf = dwarf(&sections);
        assert_eq!(guard::check(&dwarf), Ok(()), "{depth}");
        // The stack that is used for files has to be enough for the deepest that passes.
        let found = on_own_thread(|| lookup::by_debug_data(dwarf, &[0x1800, 0x2000]).unwrap()).unwrap();
        assert_eq!(found[0].len(), frames, "{depth}");
        assert_eq!(found[1], []);
    }
    let sections = of(1_000_000);
    assert!(guard::check(&dwarf(&sections)).is_err_and(|what| what.contains("nested deeper than")));
}

/// `units` compile units with DW_AT_stmt_list alone, all of the same line program: `files` files in a folder whose
/// name has `folder` bytes, and `program` bytes of instructions.
fn sharing_lines(units: usize, files: usize, folder: usize, program: usize) -> Result<(), String> {
    let mut header = vec![1, 1, 1, 0, 1, 1];
    header.extend(std::iter::repeat_n(b'd', folder));
    header.extend([0, 0]);
    header.extend(b"a\0\x01\0\0".repeat(files));
    header.push(0);
    let mut lines = [&4_u16.to_le_bytes()[..], &(header.len() as u32).to_le_bytes(), &header].concat();
    lines.extend(std::iter::repeat_n(0, program));
    let unit = [12, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0];
    let sections = [
        (gimli::SectionId::DebugAbbrev, vec![1, 0x11, 0, 0x10, 0x17, 0, 0, 0]),
        (gimli::SectionId::DebugInfo, unit.repeat(units)),
        (gimli::SectionId::DebugLine, [&(lines.len() as u32).to_le_bytes()[..], &lines].concat()),
    ];
    guard::check(&dwarf(&sections))
}

#[test]
fn paths_that_multiply_are_refused() {
    assert_eq!(sharing_lines(1, 10, 1 << 20, 0), Ok(()));
    let refused = sharing_lines(1, 100, 1 << 20, 0);
    assert!(refused.is_err_and(|what| what.contains("paths of a unit's files")));
}

#[test]
fn line_programs_that_multiply_are_refused() {
    assert_eq!(sharing_lines(15, 1, 1, 1 << 20), Ok(()));
    let refused = sharing_lines(50, 1, 1, 1 << 20);
    assert!(refused.is_err_and(|what| what.contains("bytes of line programs")));
}

#[test]
fn ranges_that_multiply_are_refused() {
    // A compile unit with children, and subprograms with DW_AT_ranges.
    let abbreviations = vec![1, 0x11, 1, 0, 0, 2, 0x2e, 0, 0x55, 0x17, 0, 0, 0];
    let mut list = Vec::new();
    for at in 1..=1_000_u64 {
        list.extend([at * 0x10, at * 0x10 + 1].map(u64::to_le_bytes).concat());
    }
    list.extend([0; 16]);
    let check = |functions: usize| {
        let mut unit = vec![4, 0, 0, 0, 0, 0, 8, 1];
        unit.extend([2, 0, 0, 0, 0].repeat(functions));
        unit.push(0);
        let sections = [
            (gimli::SectionId::DebugAbbrev, abbreviations.clone()),
            (gimli::SectionId::DebugInfo, [&(unit.len() as u32).to_le_bytes()[..], &unit].concat()),
            (gimli::SectionId::DebugRanges, list.clone()),
        ];
        guard::check(&dwarf(&sections))
    };
    assert_eq!(check(1_000), Ok(()));
    assert!(check(2_000).is_err_and(|what| what.contains("address ranges")));
}
