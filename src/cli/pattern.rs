//! Patterns of file names: `*`, `?` and `[...]`, as shells have them.
//!
//! Owns the matching of one name, without recursion and in time bounded by the product of both lengths.

/// Whether `text` has a wildcard.
pub(crate) fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether `name` matches `pattern` as a whole.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star stands, and up to where the name has been given to it.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        if pattern.get(at) == Some(&'*') {
            star = Some((at, place));
            at += 1;
        } else if let Some(length) = one(&pattern[at..], name[place]) {
            at += length;
            place += 1;
        } else if let Some((back, taken)) = star {
            star = Some((back, taken + 1));
            (at, place) = (back + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

/// How much of the beginning of `pattern` stands for the character `c`; `None` where it stands for another.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match set(pattern) {
            Some((length, members)) => holds(members, c).then_some(length),
            None => (c == '[').then_some(1),
        },
        &literal => (literal == c).then_some(1),
    }
}

/// The set that begins `pattern`: its length and what is between the brackets. A `]` right behind the beginning is one
/// of its members; without an end there is no set.
fn set(pattern: &[char]) -> Option<(usize, &[char])> {
    let first = if matches!(pattern.get(1), Some('!' | '^')) { 2 } else { 1 };
    let end = (first + 1..pattern.len()).find(|&at| pattern[at] == ']')?;
    Some((end + 1, &pattern[1..end]))
}

fn holds(members: &[char], c: char) -> bool {
    let (is_negated, members) = match members {
        ['!' | '^', rest @ ..] => (true, rest),
        members => (false, members),
    };
    let mut found = false;
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            found |= (members[at]..=members[at + 2]).contains(&c);
            at += 3;
        } else {
            found |= members[at] == c;
            at += 1;
        }
    }
    found != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, does) in [
            ("*", "", true),
            ("*.pickle", "a.pickle", true),
            ("*.pickle", "a.pickle.gz", false),
            ("rank*_*.p?ckle", "rank_1_2.pickle", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("rank[0-9]", "rank7", true),
            ("rank[!0-9]", "rank7", false),
            ("rank[^a]", "rankb", true),
            ("x[]]y", "x]y", true),
            ("x[a-]", "x-", true),
            ("x[", "x[", true),
            ("größe?", "größe1", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, name), does, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let name = "a".repeat(2_000);
        assert!(!matches(&("a*".repeat(100) + "b"), &name));
    }
}
