//! Files that are the same in another checkout: `/home/a/proj/x.py` and `/mnt/b/proj/x.py`.
//!
//! Owns the rule of the longest common end. Looks at names only.

use std::collections::{BTreeMap, BTreeSet};

/// Paths deeper than this are compared by so many of their last folders.
const MOST_PARTS: usize = 64;

/// For files of `before` the file of `after` that is the same: the one of the same path; else the one that
/// shares the longest end of its path, whole names at least, where on both sides only one does. A file without
/// any is not in the result. Swapping the sides turns every pair around.
#[must_use]
pub fn same_files<'a>(before: &BTreeSet<&'a str>, after: &BTreeSet<&'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut same: BTreeMap<&str, &str> = before.intersection(after).map(|&file| (file, file)).collect();
    let mut left: BTreeSet<&str> = before.difference(after).copied().collect();
    let mut right: BTreeSet<&str> = after.difference(before).copied().collect();
    let depth = |files: &BTreeSet<&str>| files.iter().map(|file| parts(file).len()).max().unwrap_or(0);
    for length in (1..=depth(&left).min(depth(&right))).rev() {
        for (one, other) in pairs_by_end(&left, &right, length) {
            left.remove(one);
            right.remove(other);
            same.insert(one, other);
        }
    }
    same
}

/// Files that alone on their side have an end of `length` names, and share it.
fn pairs_by_end<'a>(
    left: &BTreeSet<&'a str>,
    right: &BTreeSet<&'a str>,
    length: usize,
) -> Vec<(&'a str, &'a str)> {
    let mut by_end: BTreeMap<Vec<&str>, [Vec<&'a str>; 2]> = BTreeMap::new();
    for (side, files) in [left, right].into_iter().enumerate() {
        for &file in files {
            let names = parts(file);
            if names.len() >= length {
                by_end.entry(names[..length].to_vec()).or_default()[side].push(file);
            }
        }
    }
    let alone = |[one, other]: &[Vec<&'a str>; 2]| match (one.as_slice(), other.as_slice()) {
        ([one], [other]) => Some((*one, *other)),
        _ => None,
    };
    by_end.values().filter_map(alone).collect()
}

/// The names of a path, the file's first.
fn parts(file: &str) -> Vec<&str> {
    file.rsplit(['/', '\\']).filter(|name| !name.is_empty()).take(MOST_PARTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<(&'a str, &'a str)> {
        let (before, after) = (before.iter().copied().collect(), after.iter().copied().collect());
        let forth: Vec<_> = same_files(&before, &after).into_iter().collect();
        let mut back: Vec<_> = same_files(&after, &before).into_iter().map(|(a, b)| (b, a)).collect();
        back.sort_unstable();
        assert_eq!(forth, back, "both directions");
        forth
    }

    #[test]
    fn another_checkout_is_the_same_project() {
        let before = ["/home/a/proj/net/x.py", "/home/a/proj/x.py"];
        let after = ["/mnt/b/proj/net/x.py", "/mnt/b/proj/x.py"];
        assert_eq!(same(&before, &after), [(before[0], after[0]), (before[1], after[1])]);
        assert_eq!(
            same(&["C:\\proj\\train.py"], &["/proj/train.py"]),
            [("C:\\proj\\train.py", "/proj/train.py")]
        );
        assert_eq!(same(&["train.py"], &["/w/train.py"]), [("train.py", "/w/train.py")]);
    }

    #[test]
    fn what_could_be_two_files_is_none() {
        assert_eq!(same(&["/a/x.py"], &["/b/x.py", "/c/x.py"]), []);
        assert_eq!(same(&["/a/n/x.py", "/b/n/x.py"], &["/c/n/x.py"]), []);
        let one_is_plain = same(&["/a/x.py", "/q/n/x.py"], &["/b/x.py", "/r/n/x.py"]);
        assert_eq!(one_is_plain, [("/a/x.py", "/b/x.py"), ("/q/n/x.py", "/r/n/x.py")]);
    }

    #[test]
    fn a_path_that_stayed_is_never_given_to_another() {
        assert_eq!(same(&["/a/x.py", "/b/x.py"], &["/a/x.py"]), [("/a/x.py", "/a/x.py")]);
        assert_eq!(same(&["/a/x.py"], &["/a/y.py"]), []);
        assert_eq!(same(&["", "/"], &["//"]), []);
    }
}
