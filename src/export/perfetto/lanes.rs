//! Which slices share a track: on one track slices may follow one another or lie within one another, never
//! overlap.
//!
//! Owns the distribution and the order of begins and ends on a track. Does not know what a slice stands for.

/// From when to when, in nanoseconds, and which row of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) row: usize,
}

/// What happens on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// The slice of this span begins.
    Begin(Span),
    /// The innermost open slice ends, at this time.
    End(u64),
}

/// How slices may share a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One after the other only.
    Apart,
    /// Also one within another.
    Nested,
}

/// A track in the making.
#[derive(Default)]
struct Lane {
    edges: Vec<Edge>,
    /// Ends of the slices that are open, outermost first.
    open: Vec<u64>,
}

impl Lane {
    /// Ends what is over at `begin`; whether `span` fits then.
    fn takes(&mut self, span: Span, sharing: Sharing) -> bool {
        while self.open.last().is_some_and(|&end| end <= span.begin) {
            self.end_one();
        }
        match sharing {
            Sharing::Apart => self.open.is_empty(),
            Sharing::Nested => self.open.last().is_none_or(|&end| span.end <= end),
        }
    }

    fn end_one(&mut self) {
        if let Some(end) = self.open.pop() {
            self.edges.push(Edge::End(end));
        }
    }
}

/// Distributes `spans` over at most `most` tracks, each span to the first that takes it. Gives the tracks' edges
/// in order of time, and how many spans found no place.
pub(super) fn lanes(mut spans: Vec<Span>, sharing: Sharing, most: usize) -> (Vec<Vec<Edge>>, usize) {
    spans.sort_by_key(|span| (span.begin, std::cmp::Reverse(span.end), span.row));
    let (mut lanes, mut left_out): (Vec<Lane>, usize) = (Vec::new(), 0);
    for span in spans {
        let found = lanes.iter_mut().position(|lane| lane.takes(span, sharing));
        let at = match found {
            Some(at) => at,
            None if lanes.len() < most => {
                lanes.push(Lane::default());
                lanes.len() - 1
            }
            None => {
                left_out += 1;
                continue;
            }
        };
        lanes[at].edges.push(Edge::Begin(span));
        lanes[at].open.push(span.end.max(span.begin));
    }
    let closed = lanes.into_iter().map(|mut lane| {
        while !lane.open.is_empty() {
            lane.end_one();
        }
        lane.edges
    });
    (closed.collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ends: &[(u64, u64)]) -> Vec<Span> {
        ends.iter().enumerate().map(|(row, &(begin, end))| Span { begin, end, row }).collect()
    }

    fn text(edges: &[Edge]) -> String {
        let word = |edge: &Edge| match edge {
            Edge::Begin(span) => format!("({}@{}", span.row, span.begin),
            Edge::End(at) => format!("){at}"),
        };
        edges.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn texts(all: &[(u64, u64)], sharing: Sharing, most: usize) -> (Vec<String>, usize) {
        let (lanes, left_out) = lanes(spans(all), sharing, most);
        (lanes.iter().map(|edges| text(edges)).collect(), left_out)
    }

    #[test]
    fn slices_that_overlap_get_tracks_of_their_own() {
        let all = [(0, 10), (5, 15), (10, 12), (12, 12)];
        let (lanes, left_out) = texts(&all, Sharing::Nested, 9);
        assert_eq!(lanes, ["(0@0 )10 (2@10 )12 (3@12 )12", "(1@5 )15"]);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn slices_within_others_share_their_track_if_they_may() {
        let all = [(2, 4), (0, 10), (4, 10), (10, 20)];
        assert_eq!(texts(&all, Sharing::Nested, 9).0, ["(1@0 (0@2 )4 (2@4 )10 )10 (3@10 )20"]);
        assert_eq!(texts(&all, Sharing::Apart, 9).0, ["(1@0 )10 (3@10 )20", "(0@2 )4 (2@4 )10"]);
    }

    #[test]
    fn what_finds_no_track_is_counted() {
        assert_eq!(texts(&[(0, 9), (1, 9), (2, 9), (9, 10)], Sharing::Apart, 2).1, 1);
    }
}
