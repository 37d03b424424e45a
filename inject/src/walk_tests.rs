//! The quick walk against the system's.

use super::*;
use crate::modules;

#[inline(never)]
fn deeper(depth: u32, walker: &Walker) -> (Found<'_>, Addresses) {
    if depth > 0 {
        let found = deeper(depth - 1, walker);
        return std::hint::black_box(found);
    }
    let quick = walker.here(modules::generation());
    (quick, Addresses::here())
}

#[test]
fn both_walks_find_the_same_addresses() {
    let walker = Walker::default();
    for depth in [0, 3, 40] {
        let (quick, slow) = deeper(depth, &walker);
        let (quick, slow) = (quick.addresses(), slow.as_slice());
        // The innermost ones are those of the two walks themselves.
        let common = quick.iter().rev().zip(slow.iter().rev()).take_while(|pair| pair.0 == pair.1).count();
        assert!(common > depth as usize + 3, "{quick:x?}\n{slow:x?}");
        assert!(slow.len() - common <= 2 && quick.len() - common <= 4, "{quick:x?}\n{slow:x?}");
    }
}

/// The same from frames of other functions and sizes each time.
#[inline(never)]
fn branch(depth: u32, path: u64, walker: &Walker) -> u64 {
    if depth == 0 {
        return same_walks(walker);
    }
    let filled = [path; 3];
    let inner = match path & 3 {
        0 => branch(depth - 1, path >> 2, walker) + 1,
        1 => wide(depth - 1, path >> 2, walker),
        2 => (0..=(path >> 2 & 1)).map(|more| branch(depth - 1, (path >> 2) ^ more, walker)).sum(),
        _ => same_walks(walker) + branch(depth - 1, path >> 2, walker),
    };
    inner + std::hint::black_box(filled)[1] % 2
}

#[inline(never)]
fn wide(depth: u32, path: u64, walker: &Walker) -> u64 {
    let filled = [path; 40];
    let inner = branch(depth, path.rotate_left(7), walker);
    inner + std::hint::black_box(filled)[7] % 3
}

#[inline(never)]
fn same_walks(walker: &Walker) -> u64 {
    let quick = walker.here(modules::generation());
    let slow = Addresses::here();
    let (quick, slow) = (quick.addresses(), slow.as_slice());
    let (at, within) = slow
        .iter()
        .enumerate()
        .find_map(|(at, address)| Some((at, quick.iter().position(|other| other == address)?)))
        .expect("a frame in common");
    assert!(at <= 2 && within <= 4, "{quick:x?}\n{slow:x?}");
    let (slow, quick) = (&slow[at..], &quick[within..]);
    let length = slow.len().min(quick.len());
    assert_eq!(slow[..length], quick[..length]);
    assert!(slow.len() == quick.len() || at + slow.len() == 80 || within + quick.len() == 80);
    1
}

#[test]
fn a_walk_that_builds_on_the_last_one_finds_what_is_there_now() {
    let walker = Walker::default();
    let mut path = 0x9e37_79b9_7f4a_7c15_u64;
    let mut walks = 0;
    for round in 0..300 {
        path ^= path << 13;
        path ^= path >> 7;
        path ^= path << 17;
        walks += branch(round % 24, path, &walker);
        if round % 50 == 0 {
            // Another thread with the same cache.
            walks += std::thread::scope(|scope| {
                scope.spawn(|| branch(12, path, &walker)).join().expect("it ends")
            });
        }
    }
    assert!(walks > 1000, "{walks}");
    // This thread's, and those of threads that may have had the same stack.
    assert!((2..=7).contains(&walker.lock().caches.len()));
}

/// Walks below a frame that has `data` in the register that others use as frame pointer, and on its stack.
#[inline(never)]
fn with_data(data: u64, depth: u32, walker: &Walker) -> u64 {
    if depth > 0 {
        return with_data(data ^ 1, depth - 1, walker) + std::hint::black_box(data) % 2;
    }
    let filled = std::hint::black_box([data; 5]);
    same_walks(walker) + filled[2] % 2
}

#[test]
fn a_walk_from_the_same_places_is_recalled_and_one_from_others_is_not() {
    let walker = Walker::default();
    let hits = |walker: &Walker| walker.lock().caches.last().map_or(0, |cache| cache.recall.hits);
    for data in 0..std::hint::black_box(100) {
        with_data(data, 20, &walker);
    }
    assert!(hits(&walker) >= 90, "{}", hits(&walker));
    let before = hits(&walker);
    for depth in 21..41 {
        with_data(7, depth, &walker);
    }
    assert_eq!(hits(&walker), before);
    // As many places as are remembered, in turns. The compiler must not know how many: it would write a call for each.
    for round in 0..std::hint::black_box(5) {
        for depth in 0..std::hint::black_box(16) {
            with_data(round, depth, &walker);
        }
    }
    assert!(hits(&walker) >= before + 4 * 16, "{}", hits(&walker) - before);
    with_data(3, 300, &walker);
}

#[test]
fn a_foreign_stack_is_left_to_the_other_walk() {
    assert_eq!(stack_end(8), None);
}
