//! Edited programs: lines inserted, deleted, shifted, in another folder.

use proptest::prelude::*;

use super::*;

/// A line whose stacks' text is `text`, four frames of it its callers'.
fn line(file: &str, number: u64, function: &str, text: u64) -> LineTraits {
    let mut stacks = vec![1, 2, 100 + text * 4, 101 + text * 4, 102 + text * 4];
    stacks.sort_unstable();
    LineTraits {
        file: Some(file.to_owned()),
        line: Some(number),
        function: Some(function.to_owned()),
        fingerprint: Fingerprint {
            stacks: Some(stacks),
            sizes: Some(vec![(512 * (text + 1), 3)]),
            total_bytes: Some(1536 * (text + 1)),
            allocations: Some(3),
        },
    }
}

fn without_stacks(mut line: LineTraits) -> LineTraits {
    (line.fingerprint.stacks, line.fingerprint.sizes) = (None, None);
    line
}

/// Numbers of the paired lines.
fn numbers(before: &[LineTraits], after: &[LineTraits]) -> Vec<(u64, u64)> {
    let found = match_lines(before, after);
    let pair = |pair: &LinePair| Some((before[pair.before?].line?, after[pair.after?].line?));
    found.iter().filter_map(pair).collect()
}

fn mirrored(before: &[LineTraits], after: &[LineTraits]) -> Vec<LinePair> {
    let mut back = match_lines(after, before);
    for pair in &mut back {
        *pair = LinePair { before: pair.after, after: pair.before };
    }
    back.sort_unstable_by_key(|pair| (pair.before.is_none(), pair.before, pair.after));
    back
}

#[test]
fn a_line_inserted_above_shifts_all_others_and_they_are_found() {
    let before: Vec<_> = (0..4).map(|n| line("a.py", 10 + n, "f", n)).collect();
    let mut after: Vec<_> = (0..4).map(|n| line("a.py", 11 + n, "f", n)).collect();
    after.insert(0, line("a.py", 10, "f", 77));
    assert_eq!(numbers(&before, &after), [(10, 11), (11, 12), (12, 13), (13, 14)]);
    assert_eq!(numbers(&after, &before), [(11, 10), (12, 11), (13, 12), (14, 13)]);
}

#[test]
fn figures_do_where_a_report_has_no_stacks() {
    let before: Vec<_> = (0..4).map(|n| without_stacks(line("a.py", 10 + n, "f", n * 9))).collect();
    let after: Vec<_> = (0..4).map(|n| line("a.py", 12 + n, "f", n * 9)).collect();
    assert_eq!(numbers(&before, &after), [(10, 12), (11, 13), (12, 14), (13, 15)]);
}

#[test]
fn a_deleted_line_is_nobody_elses() {
    let before = [line("a.py", 10, "f", 0), line("a.py", 11, "f", 1), line("a.py", 12, "f", 2)];
    let after = [line("a.py", 10, "f", 0), line("a.py", 11, "f", 2)];
    assert_eq!(numbers(&before, &after), [(10, 10), (12, 11)]);
}

#[test]
fn larger_batches_leave_lines_where_they_are() {
    let before: Vec<_> = (0..3).map(|n| line("a.py", 10 + n, "f", 0)).collect();
    let mut after = before.clone();
    for line in &mut after {
        line.fingerprint.sizes = Some(vec![(1 << 20, 3)]);
    }
    assert_eq!(numbers(&before, &after), [(10, 10), (11, 11), (12, 12)]);
    after.push(line("a.py", 40, "f", 9));
    assert_eq!(numbers(&before, &after), [(10, 10), (11, 11), (12, 12)]);
}

#[test]
fn renamed_functions_and_other_files_are_others() {
    let one = [line("a.py", 10, "f", 0)];
    assert_eq!(numbers(&one, &[line("a.py", 10, "g", 0)]), []);
    assert_eq!(numbers(&one, &[line("b.py", 10, "f", 0)]), []);
    assert_eq!(match_lines(&one, &[line("b.py", 10, "f", 0)]).len(), 2);
    assert_eq!(numbers(&one, &[line("/w/a.py", 14, "f", 0)]), [(10, 14)], "another checkout");
    // `x/a.py` is gone, `y/a.py` could be either of two.
    let two = [line("x/a.py", 1, "f", 0), line("y/a.py", 1, "f", 0)];
    assert_eq!(numbers(&two, &[line("z/a.py", 1, "f", 0)]), []);
}

#[test]
fn what_is_quite_another_thing_is_not_paired_but_at_its_own_number() {
    let before = [line("a.py", 10, "f", 0)];
    let mut other = line("a.py", 30, "f", 5);
    other.fingerprint.stacks = Some(vec![7, 8, 9]);
    assert_eq!(numbers(&before, std::slice::from_ref(&other)), []);
    other.line = Some(10);
    assert_eq!(numbers(&before, &[other]), [(10, 10)]);
}

#[test]
fn a_function_of_very_many_lines_is_paired_by_number() {
    let lines = |from: u64| (from..from + 600).map(|n| line("a.py", n, "f", 0)).collect::<Vec<_>>();
    let (before, after) = (lines(0), lines(100));
    assert_eq!(numbers(&before, &after).len(), 500);
    assert_eq!(match_lines(&before, &after), mirrored(&before, &after));
}

proptest! {
    #[test]
    fn all_lines_shifted_alike_are_all_found(
        texts in prop::collection::vec(0u64..6, 1..30),
        gaps in prop::collection::vec(1u64..4, 30),
        shift in 0u64..50,
    ) {
        let mut number = 10;
        let mut before = Vec::new();
        for (text, gap) in texts.iter().zip(&gaps) {
            number += gap;
            before.push(line("a.py", number, "f", *text));
        }
        let after: Vec<_> =
            before.iter().cloned().map(|mut line| { line.line = line.line.map(|n| n + shift); line }).collect();
        let expected: Vec<_> = before.iter().map(|line| line.line.unwrap()).map(|n| (n, n + shift)).collect();
        prop_assert_eq!(numbers(&before, &after), expected);
    }

    #[test]
    fn both_directions_pair_alike_and_lose_nothing(
        one in prop::collection::vec((0u64..12, 0u64..4, 0usize..3), 0..14),
        other in prop::collection::vec((0u64..12, 0u64..4, 0usize..3), 0..14),
        plain in any::<bool>(),
    ) {
        const FILES: [&str; 3] = ["/a/x.py", "/b/x.py", "/a/n/y.py"];
        const OTHERS: [&str; 3] = ["/a/x.py", "/c/n/y.py", "/c/z/y.py"];
        let make = |rows: &[(u64, u64, usize)], files: [&str; 3]| -> Vec<LineTraits> {
            rows.iter().map(|&(number, text, file)| line(files[file], number, "f", text)).collect()
        };
        let (before, mut after) = (make(&one, FILES), make(&other, OTHERS));
        if plain {
            after = after.into_iter().map(without_stacks).collect();
        }
        let forth = match_lines(&before, &after);
        let content = |pairs: &[LinePair]| {
            let mut pairs: Vec<_> = pairs
                .iter()
                .map(|pair| {
                    let text = |line: &LineTraits| format!("{line:?}");
                    (pair.before.map(|i| text(&before[i])), pair.after.map(|i| text(&after[i])))
                })
                .collect();
            pairs.sort();
            pairs
        };
        prop_assert_eq!(content(&forth), content(&mirrored(&before, &after)));
        let mut seen: Vec<_> = forth.iter().filter_map(|pair| pair.before).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..before.len()).collect::<Vec<_>>());
        let mut seen: Vec<_> = forth.iter().filter_map(|pair| pair.after).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..after.len()).collect::<Vec<_>>());
    }
}
