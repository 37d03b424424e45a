//! Two rows of things, paired in their order.
//!
//! Owns the search for the pairs with the highest sum (Needleman and Wunsch). Knows nothing of what is paired.

/// Positions that belong together, ascending on both sides, so that the sum of their scores is highest. `score`
/// is `None` for two that must not be paired. Takes `left * right` steps and as much room.
pub(super) fn align(
    left: usize,
    right: usize,
    score: impl Fn(usize, usize) -> Option<u64>,
) -> Vec<(usize, usize)> {
    let width = right + 1;
    let mut scores = vec![None; left * right];
    let mut best = vec![0u64; (left + 1) * width];
    for i in 0..left {
        for j in 0..right {
            let pair = score(i, j);
            scores[i * right + j] = pair;
            let paired = pair.map_or(0, |pair| best[i * width + j].saturating_add(pair));
            best[(i + 1) * width + j + 1] =
                paired.max(best[i * width + j + 1]).max(best[(i + 1) * width + j]);
        }
    }
    let (mut i, mut j) = (left, right);
    let mut pairs = Vec::new();
    while i > 0 && j > 0 {
        let here = best[i * width + j];
        let paired = scores[(i - 1) * right + j - 1]
            .is_some_and(|pair| best[(i - 1) * width + j - 1].saturating_add(pair) == here);
        if paired {
            (i, j) = (i - 1, j - 1);
            pairs.push((i, j));
        } else if best[(i - 1) * width + j] == here {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_text(one: &str, other: &str) -> Vec<(usize, usize)> {
        let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
        align(one.len(), other.len(), |i, j| (one[i] == other[j]).then_some(1))
    }

    #[test]
    fn the_longest_common_part_is_found() {
        assert_eq!(by_text("abc", "abc"), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(by_text("abc", "xabyc"), [(0, 1), (1, 2), (2, 4)]);
        assert_eq!(by_text("abc", "c"), [(2, 0)]);
        assert_eq!(by_text("abc", "xyz"), []);
        assert_eq!(by_text("", "a"), []);
    }

    #[test]
    fn one_good_pair_is_worth_more_than_two_poor_ones() {
        let scores = [[3, 10], [0, 3]];
        assert_eq!(align(2, 2, |i, j| Some(scores[i][j])), [(0, 1)]);
        let scores = [[6, 10], [0, 6]];
        assert_eq!(align(2, 2, |i, j| Some(scores[i][j])), [(0, 0), (1, 1)]);
    }
}
