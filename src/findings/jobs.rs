//! Which files of a call are ranks of one job.
//!
//! Owns that one rule: tables of ranks and the rules over ranks ask here, so none compares what another keeps apart.

use super::RankFacts;

/// What tells jobs apart, one after the other, where the files of a call are not one.
type Key = fn(&RankFacts) -> (Option<u64>, &str);
const KEYS: [Key; 3] = [|rank| (rank.world_size, ""), |rank| (None, &rank.folder), |rank| (None, &rank.job)];

/// The jobs among the files of a call, as places in `ranks`, each in the order of the call. All files are one job when
/// every rank is there once and no two recordings state different numbers of ranks. Else files are told apart by the
/// stated number of ranks, then by the folder that holds them, then by their names without the rank, as far as needed.
/// Files without a rank, jobs of one rank and those in which a rank is there twice are in none.
#[must_use]
pub fn jobs(ranks: &[RankFacts]) -> Vec<Vec<usize>> {
    let mut open: Vec<Vec<usize>> =
        vec![(0..ranks.len()).filter(|&place| ranks[place].rank.is_some()).collect()];
    let mut jobs = Vec::new();
    for key in KEYS {
        let (whole, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(|group| is_job(ranks, group));
        jobs.extend(whole);
        open = rest.into_iter().flat_map(|group| parted(ranks, group, key)).collect();
    }
    jobs.extend(open.into_iter().filter(|group| is_job(ranks, group)));
    jobs.sort();
    jobs
}

/// The places of `group` by their `key`, in the order of the call.
fn parted(ranks: &[RankFacts], group: Vec<usize>, key: Key) -> Vec<Vec<usize>> {
    let mut parts = std::collections::BTreeMap::<_, Vec<usize>>::new();
    for place in group {
        parts.entry(key(&ranks[place])).or_default().push(place);
    }
    parts.into_values().collect()
}

fn is_job(ranks: &[RankFacts], group: &[usize]) -> bool {
    let mut numbers: Vec<_> = group.iter().map(|&place| ranks[place].rank).collect();
    numbers.sort_unstable();
    let mut sizes = group.iter().filter_map(|&place| ranks[place].world_size);
    let size = sizes.next();
    group.len() >= 2
        && numbers.windows(2).all(|pair| pair[0] != pair[1])
        && sizes.all(|one| Some(one) == size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(path: &str, rank: Option<u64>, world_size: Option<u64>) -> RankFacts {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let job = path.replace(|c: char| c.is_ascii_digit(), "");
        RankFacts { path: path.to_owned(), folder, job, rank, world_size, ..RankFacts::default() }
    }

    #[test]
    fn files_are_one_job_where_every_rank_is_there_once() {
        let one = [rank("a/x", Some(0), None), rank("b/y", Some(1), Some(4)), rank("b/z", Some(2), Some(4))];
        assert_eq!(jobs(&one), [[0, 1, 2]]);
        assert!(jobs(&one[..1]).is_empty() && jobs(&[]).is_empty());
        let twice = [rank("a/x", Some(0), None), rank("a/x", Some(0), None)];
        assert!(jobs(&twice).is_empty());
    }

    #[test]
    fn folders_tell_jobs_apart_and_then_names() {
        let files =
            ["7/r0", "8/r0", "7/r1", "8/r1", "9/r0", "mixed/a_r0", "mixed/b_r0", "mixed/b_r1", "8/r2"];
        let number = |path: &&str| path.bytes().last().map(|byte| u64::from(byte - b'0'));
        let ranks: Vec<_> = files.iter().map(|path| rank(path, number(path), None)).collect();
        assert_eq!(jobs(&ranks), [vec![0, 2], vec![1, 3, 8], vec![6, 7]]);
    }

    #[test]
    fn stated_sizes_tell_jobs_apart_and_files_without_a_rank_are_in_none() {
        let ranks = [
            rank("a", Some(0), Some(2)),
            rank("b", Some(0), Some(4)),
            rank("c", Some(1), Some(2)),
            rank("d", Some(1), Some(4)),
            rank("e", None, None),
        ];
        assert_eq!(jobs(&ranks), [[0, 2], [1, 3]]);
    }
}
