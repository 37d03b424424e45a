//! `stranded-stream`: free memory on a stream that the job no longer uses.

use crate::error::Result;
use crate::findings::reserve::{bytes_of, is_share, lines_of_segments, stream_name};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::PoolId;
use crate::rebuild::{Moment, State, StateSegment};
use crate::tables::StreamUse;
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "stranded-stream",
    heading: "Free memory on a stream that the job no longer uses",
    guide: Guide {
        says: "Memory was obtained for requests of one CUDA stream, is wholly free now, and cannot serve the main \
               stream: PyTorch never lends a block from one stream to another. A typical case is a model that is \
               initialised or wrapped under `torch.cuda.stream(...)` and then trained on the default stream.",
        fires: "The wholly free segments of the default pool on other streams than the main one are at least 1 GiB \
                and at least 10 % of reserved memory, after the last event or where reserved memory peaks. The main \
                stream is the one on which most bytes are allocated, unless it is given up: nothing of it is live \
                at the end, and other streams go on with a tenth of its traffic or more. It is a warning where the \
                main stream obtained new segments after the last use of the other stream, and else information.",
        why: "A tenth of the reserved memory is the difference between a batch that fits and one that does not; a \
              GiB keeps small side streams, which copy batches or reduce gradients, out of it. Only what is wholly \
              free counts, for only that can be given back at once.",
        needs: "Segment events or the final segments, with their streams.",
        is_not: "Not a leak. Not what a private pool holds (`private-pools`). A side stream in steady use has a cache \
                 as the main stream has; where it uses that again in every step, this is information at most.",
        remedy: "Allocate on the stream that uses the memory: create and wrap the model outside of \
                 `torch.cuda.stream(...)`. Where the one-off work must run on a stream of its own, call \
                 `torch.cuda.empty_cache()` once behind it: the segments are wholly free, so all of this goes back \
                 to the driver and then to the main stream.",
    },
    check: Check::Device(find),
};

/// Less than this is the cache of an ordinary side stream.
const LEAST_BYTES: u64 = 1 << 30;
/// Share of reserved memory (in percent).
const LEAST_PERCENT: u64 = 10;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let history = scene.history;
    let is_divided = scene.streams().rows.len() > 1 && history.peaks.reserved.bytes >= LEAST_BYTES;
    if !is_divided {
        return Ok(Vec::new());
    }
    let mut peak = Stranded::of(scene, scene.at_reserved_peak(), history.peaks.reserved.moment);
    peak.leave_out_the_latest(scene);
    let end = Stranded::of(scene, scene.at_end(), Moment(history.events));
    let most = if peak.bytes > end.bytes { peak } else { end };
    let is_much = most.bytes >= LEAST_BYTES && is_share(most.bytes, most.reserved_bytes, LEAST_PERCENT);
    Ok(is_much.then(|| most.told(scene)).into_iter().collect())
}

/// Wholly free segments of other streams than the main one, at one moment.
struct Stranded<'s> {
    moment: Moment,
    reserved_bytes: u64,
    segments: Vec<&'s StateSegment>,
    bytes: u64,
}

impl<'s> Stranded<'s> {
    fn of(scene: &Scene<'_>, state: &'s State, moment: Moment) -> Self {
        let main = scene.streams().main;
        let is_stranded = |segment: &&StateSegment| {
            segment.pool == PoolId::DEFAULT && segment.stream != main && segment.is_wholly_free()
        };
        let segments: Vec<_> = state.segments.iter().filter(is_stranded).collect();
        let bytes = bytes_of(segments.iter().copied());
        Self { moment, reserved_bytes: bytes_of(&state.segments), segments, bytes }
    }

    /// Reserved bytes peak as a segment is obtained: it is not free, but about to be used.
    fn leave_out_the_latest(&mut self, scene: &Scene<'_>) {
        let ranges = &scene.history.ranges;
        let latest = |range: &usize| ranges.born[*range] == self.moment && self.moment > Moment(0);
        if let Some(range) = (0..ranges.len()).find(latest) {
            self.segments.retain(|segment| segment.address != ranges.addresses[range]);
            self.bytes = bytes_of(self.segments.iter().copied());
        }
    }

    /// The streams with what each holds, most first.
    fn by_stream(&self, scene: &Scene<'_>) -> Vec<(StreamUse, u64)> {
        let rows = scene.streams().rows.iter();
        let mut by_stream: Vec<(StreamUse, u64)> = rows
            .map(|row| {
                let of_it = self.segments.iter().copied().filter(|segment| segment.stream == row.stream);
                (*row, bytes_of(of_it))
            })
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        by_stream.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        by_stream
    }

    fn told(&self, scene: &Scene<'_>) -> Finding {
        let by_stream = self.by_stream(scene);
        let (most, most_bytes) = by_stream.first().copied().unwrap_or_default();
        let main = scene.streams().get(scene.streams().main);
        let is_done = most.last_use.is_none_or(|last| last < self.moment.0);
        let grown_bytes = if is_done { obtained_since(scene, main.stream, most.last_use) } else { 0 };
        let severity = if grown_bytes > 0 { Severity::Warning } else { Severity::Info };
        let title = format!(
            "{} of {} reserved ({}) lie free on {}, where the main stream ({}) cannot use them",
            Bytes(self.bytes),
            Bytes(self.reserved_bytes),
            percent(self.bytes, self.reserved_bytes),
            match by_stream.len() {
                1 => format!("stream {}", stream_name(most.stream)),
                more => format!("{} other streams", Count(more as u64)),
            },
            stream_name(main.stream)
        );
        let mut finding = Finding::new(&RULE, severity, scene.id(), self.bytes, title)
            .lines(lines_of_segments(scene, self.moment, self.segments.iter().copied()))
            .evidence("event", self.moment.event())
            .evidence("stranded_stream_bytes", self.bytes)
            .evidence("reserved_bytes", self.reserved_bytes)
            .evidence("main_stream", main.stream)
            .evidence("stream", most.stream)
            .evidence("stream_bytes", most_bytes)
            .evidence("streams", by_stream.len() as u64)
            .evidence("last_use_event", most.last_use)
            .evidence("main_stream_first_alloc_event", main.first_alloc)
            .evidence("main_stream_obtained_since_bytes", grown_bytes);
        if scene.ooms.iter().any(|oom| oom.oom.event >= self.moment.0) {
            finding = finding.evidence("returned_before_oom", true);
        }
        finding.remedy(remedy(grown_bytes, is_done))
    }
}

/// Bytes of the segments that the main stream obtained after event `since`.
fn obtained_since(scene: &Scene<'_>, main: u64, since: Option<u64>) -> u64 {
    let ranges = &scene.history.ranges;
    let from = since.map_or(Moment(0), Moment::after);
    let obtained = (0..ranges.len()).filter(|&range| {
        ranges.streams[range] == main && ranges.pools[range] == PoolId::DEFAULT && ranges.born[range] > from
    });
    obtained.fold(0, |sum, range| sum.saturating_add(ranges.bytes[range]))
}

fn remedy(grown_bytes: u64, is_done: bool) -> String {
    let mut said = Vec::new();
    if grown_bytes > 0 {
        said.push(format!(
            "After that stream's last use the main stream obtained {} anew, which this memory could have served.",
            Bytes(grown_bytes)
        ));
    }
    said.push(if is_done {
        "Allocate on the stream that goes on using the memory: run the one-off work (initialisation, wrapping, \
         loading) outside of torch.cuda.stream(...), or call torch.cuda.empty_cache() once behind it: these segments \
         are wholly free, so all of them are returned."
            .to_owned()
    } else {
        "That stream is used again, so this is its cache rather than waste; where memory is short, allocate its \
         buffers on the main stream, or once and for good."
            .to_owned()
    });
    said.join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::TraceBuilder;

    const GIB: u64 = 1 << 30;
    const A: u64 = 0x7000_0000_0000;

    /// `count` segments of `gib` on `stream`, each allocated once, and freed unless kept.
    fn filled(builder: TraceBuilder, stream: u64, count: u64, gib: u64, kept: bool) -> TraceBuilder {
        let mut builder = builder.stream(stream).at("wrap.py", 30 + stream, "wrap");
        for index in 0..count {
            let at = A + (stream << 44) + (index << 38);
            builder = builder.segment_alloc(at, gib * GIB).alloc(at, gib * GIB);
            if !kept {
                builder = builder.free(at, gib * GIB);
            }
        }
        builder
    }

    fn stranded(builder: TraceBuilder) -> Vec<Finding> {
        found("stranded-stream", &builder.build(), None)
    }

    #[test]
    fn the_cache_of_a_one_shot_stream_is_stranded() {
        let found = stranded(filled(filled(TraceBuilder::new(), 9, 4, 5, false), 0, 8, 5, true));
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 20 * GIB));
        assert_eq!(finding.lines[0].label(), "wrap.py:39 wrap");
        let evidence = &finding.evidence;
        assert_eq!((&evidence["stream"], &evidence["main_stream"]), (&9.into(), &0.into()));
        let (last, first) = (&evidence["last_use_event"], &evidence["main_stream_first_alloc_event"]);
        assert!(last.as_u64() < first.as_u64());
        assert_eq!(evidence["main_stream_obtained_since_bytes"], 40 * GIB);
    }

    #[test]
    fn a_heavy_start_does_not_make_it_the_main_stream() {
        let found = stranded(filled(filled(TraceBuilder::new(), 9, 8, 5, false), 0, 6, 5, true));
        assert_eq!((found[0].bytes, found[0].severity), (40 * GIB, Severity::Warning));
        assert_eq!(found[0].evidence["main_stream"], 0);
    }

    #[test]
    fn after_the_main_stream_it_is_worth_knowing_only() {
        let found = stranded(filled(filled(TraceBuilder::new(), 0, 8, 5, true), 9, 4, 5, false));
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Info, 20 * GIB));
    }

    #[test]
    fn what_was_obtained_a_moment_ago_is_not_free() {
        // The peak of reserved bytes is where stream 7 obtains what it goes on to use.
        assert!(stranded(filled(filled(TraceBuilder::new(), 0, 8, 5, true), 7, 1, 8, true)).is_empty());
    }

    #[test]
    fn several_streams_count_together() {
        let both = filled(filled(TraceBuilder::new(), 3, 1, 1, false), 4, 1, 1, false);
        let found = stranded(filled(both, 0, 4, 1, true));
        assert_eq!((found[0].bytes, &found[0].evidence["streams"]), (2 * GIB, &2.into()));
    }

    #[test]
    fn little_or_live_or_a_small_share_is_not() {
        let main = |builder| filled(builder, 0, 8, 5, true);
        assert!(stranded(main(filled(TraceBuilder::new(), 9, 3, 1, false))).is_empty(), "7 %");
        assert!(stranded(main(filled(TraceBuilder::new(), 9, 4, 5, true))).is_empty(), "live");
        let mib = |builder: TraceBuilder| {
            let builder = builder.stream(9).segment_alloc(A + 7, 1000 << 20).alloc(A + 7, 1000 << 20);
            builder.free(A + 7, 1000 << 20)
        };
        assert!(stranded(filled(mib(TraceBuilder::new()), 0, 1, 5, true)).is_empty(), "1,000 MiB");
        assert!(stranded(filled(TraceBuilder::new(), 5, 8, 5, false)).is_empty(), "one stream");
    }
}
