//! The quick walk against the system's.

use super::*;
use crate::modules;

#[inline(never)]
fn deeper(depth: u32, walker: &Walker) -> (Addresses, Addresses) {
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
        let (quick, slow) = (quick.as_slice(), slow.as_slice());
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
    let (quick, slow) = (quick.as_slice(), slow.as_slice());
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
    assert_eq!(walker.lock().caches.len(), 1);
}

#[test]
fn a_foreign_stack_is_left_to_the_other_walk() {
    assert_eq!(stack_end(8), None);
}
