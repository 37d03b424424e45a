//! Which process a line of a log came from, by what launchers and loggers put in front of it.
//!
//! Owns the few forms that name a rank or a process: `[rank2]:`, `[default2]:` (torchrun), `[1,2]<stderr>:`
//! (mpirun), `(Worker pid=1756)` (Ray), `2: ` (srun). Timestamps and levels name no process.

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tag {
    kind: Kind,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Rank,
    TorchRun,
    MpiRun,
    Process,
    Srun,
}

/// A tag stands at the start of a line, if anywhere.
const FRONT_BYTES: usize = 160;

impl Tag {
    /// The tag of a line that begins with `line`.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        let front = &line[..line.len().min(FRONT_BYTES)];
        let front = front.split(|&byte| byte == b'\n').next().unwrap_or(front);
        let found = |kind, number| Self { kind, number };
        after_word(front, b"rank", b" :=_#")
            .map(|number| found(Kind::Rank, number))
            .or_else(|| after_word(front, b"[default", b"").map(|number| found(Kind::TorchRun, number)))
            .or_else(|| mpirun(front).map(|number| found(Kind::MpiRun, number)))
            .or_else(|| after_word(front, b"pid=", b"").map(|number| found(Kind::Process, number)))
            .or_else(|| srun(front).map(|number| found(Kind::Srun, number)))
    }

    /// The rank, where the tag names one.
    pub(super) fn rank(self) -> Option<u32> {
        if self.kind == Kind::Process { None } else { u32::try_from(self.number).ok() }
    }

    /// A number that is different for different processes of one log.
    pub(super) fn key(self) -> u64 {
        self.number ^ ((self.kind as u64) << 56)
    }

    /// Whether both tags are of the same kind and name different processes.
    pub(super) fn is_another(self, other: Self) -> bool {
        self.kind == other.kind && self.number != other.number
    }
}

/// The number behind `word`, with at most two of `between` in between; `word` must not be the end of a
/// longer one.
fn after_word(text: &[u8], word: &[u8], between: &[u8]) -> Option<u64> {
    (0..text.len().saturating_sub(word.len())).find_map(|at| {
        let is_here = text[at..at + word.len()].eq_ignore_ascii_case(word);
        let is_whole = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        if !is_here || !is_whole {
            return None;
        }
        let rest = &text[at + word.len()..];
        let gap = rest.iter().take(2).take_while(|byte| between.contains(byte)).count();
        number(&rest[gap..]).map(|(value, _)| value)
    })
}

/// `[1,2]<stderr>`: the second number is the rank.
fn mpirun(text: &[u8]) -> Option<u64> {
    let (_, rest) = number(text.strip_prefix(b"[")?)?;
    let (rank, rest) = number(rest.strip_prefix(b",")?)?;
    rest.strip_prefix(b"]")?.starts_with(b"<std").then_some(rank)
}

/// `2: `, perhaps with blanks in front.
fn srun(text: &[u8]) -> Option<u64> {
    let (rank, rest) = number(text.trim_ascii_start())?;
    rest.starts_with(b": ").then_some(rank)
}

/// The number at the start of `text` and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((value, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(line: &str) -> Option<u32> {
        Tag::of(line.as_bytes())?.rank()
    }

    #[test]
    fn launchers_name_the_rank() {
        for line in [
            "[rank7]: Traceback",
            "[default7]:Traceback",
            "[1,7]<stderr>:Traceback",
            "7: Traceback",
            "  7: Traceback",
            "2024-06-17 13:18:29 INFO rank=7 step 5",
            "\x1b[36m[RANK: 7]\x1b[0m x",
            "local_rank 7 | x",
        ] {
            assert_eq!(rank(line), Some(7), "{line}");
        }
    }

    #[test]
    fn times_levels_and_words_name_no_process() {
        for line in [
            "",
            "2024-06-17T13:18:29.371622Z ERROR x",
            "13:18:29 x",
            "E0401 12:00:00.1 4 x",
            "franks 7",
            "rank",
        ] {
            assert_eq!(Tag::of(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Tag::of(b"x\n[rank7]: y"), None, "another line");
    }

    #[test]
    fn workers_are_told_apart_but_have_no_rank() {
        let (one, two) = (Tag::of(b"(Worker pid=12) x"), Tag::of(b"(Worker pid=13) x"));
        assert_eq!(one.and_then(Tag::rank), None);
        assert!(one.zip(two).is_some_and(|(one, two)| one.is_another(two)));
        assert!(Tag::of(b"[rank7]:").zip(two).is_some_and(|(one, two)| !one.is_another(two)));
    }
}
