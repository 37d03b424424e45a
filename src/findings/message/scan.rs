//! The way through a log of any size.
//!
//! Owns the window that moves over the log, the phrases that are looked for in it, and the count of lines.
//! Memory is bounded by the window and by the number of different messages that are kept.

use std::io::{self, Read};
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::fold::Folder;
use super::front::LOOK_BACK_BYTES;
use super::head;
use super::read::{Expandable, Message, Place};
use super::settings;
use super::tag::Tag;
use super::tokens::REACH_BYTES;

/// What is read at once.
const STEP_BYTES: usize = 256 << 10;
/// What must be in the window behind a phrase before it is looked at.
const AHEAD_BYTES: usize = REACH_BYTES + (4 << 10);

/// What a log holds.
#[derive(Debug, Default)]
pub struct Scan {
    /// Its messages, in order.
    pub messages: Vec<Message>,
    /// Further ones, beyond what is kept.
    pub left_out: u64,
    /// Bytes that were read, unpacked.
    pub bytes: u64,
    /// Lines that were read.
    pub lines: u64,
    /// Why reading ended early.
    pub fault: Option<io::Error>,
}

/// The phrases that may begin a message, and what follows from each.
const PHRASES: [(&str, Phrase); 10] = [
    ("ut of memory", Phrase::OutOfMemory),
    ("Tried", Phrase::Tried),
    ("Allocation", Phrase::OnDevice),
    ("ALLOC_FAILED", Phrase::Word),
    ("cudaErrorMemoryAllocation", Phrase::Word),
    ("hipErrorOutOfMemory", Phrase::Word),
    ("CUDA_ERROR_OUT_OF_MEMORY", Phrase::Word),
    ("UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", Phrase::Word),
    ("INTERNAL ASSERT FAILED", Phrase::Assertion),
    ("expandable_segments", Phrase::Setting),
];

#[derive(Clone, Copy, Debug)]
enum Phrase {
    OutOfMemory,
    Tried,
    OnDevice,
    Word,
    Assertion,
    Setting,
}

/// Finds any of the phrases.
static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::new(PHRASES.map(|(text, _)| text)).expect("ten short phrases make an automaton")
});

/// Looks through `input` to its end.
pub fn scan(input: impl Read) -> Scan {
    let mut window = Window { text: Vec::with_capacity(2 * STEP_BYTES), ..Window::default() };
    let fault = window.run(input).err();
    let (messages, left_out) = window.folder.finish();
    let lines = window.lines + u64::from(window.bytes > 0 && !window.ends_line);
    Scan { messages, left_out, bytes: window.bytes, lines, fault }
}

#[derive(Default)]
struct Window {
    text: Vec<u8>,
    /// Offset of the window's first byte in the log.
    base: u64,
    /// Where the search goes on, in the window.
    next: usize,
    /// Up to where lines are counted, in the window.
    counted: usize,
    lines: u64,
    bytes: u64,
    ends_line: bool,
    expandable: Expandable,
    /// Messages with lines of other processes in between: whose they are, and where they end in the log.
    torn: Vec<(Tag, u64)>,
    folder: Folder,
}

impl Window {
    /// What was read before a fault is searched, too.
    fn run(&mut self, mut input: impl Read) -> io::Result<()> {
        loop {
            let before = self.text.len();
            let read = input.by_ref().take(STEP_BYTES as u64).read_to_end(&mut self.text);
            let more = self.text.len() - before;
            self.bytes += more as u64;
            let is_last = more == 0 || read.is_err();
            let limit = if is_last { self.text.len() } else { self.text.len().saturating_sub(AHEAD_BYTES) };
            self.search(limit);
            if is_last {
                self.count_lines(self.text.len());
                self.ends_line = self.text.last() == Some(&b'\n');
                return read.map(drop);
            }
            self.forget(limit.saturating_sub(LOOK_BACK_BYTES));
        }
    }

    /// Looks at every phrase that begins before `limit`.
    fn search(&mut self, limit: usize) {
        while let Some(found) = FINDER.find(&self.text[self.next.min(self.text.len())..]) {
            let (at, end) = (self.next + found.start(), self.next + found.end());
            if at >= limit {
                break;
            }
            self.next = end.max(self.look(PHRASES[found.pattern().as_usize()].1, at, end));
        }
        self.next = self.next.max(limit);
    }

    /// Looks at the phrase at `at..end`, and says where its message ends.
    fn look(&mut self, phrase: Phrase, at: usize, end: usize) -> usize {
        let text = self.text.as_slice();
        let head = match phrase {
            Phrase::OutOfMemory => at.checked_sub(1).and_then(|at| head::out_of_memory(text, at)),
            Phrase::Tried => head::tried(text, at),
            Phrase::OnDevice => head::on_device(text, at),
            Phrase::Word => head::word(text, at, end),
            Phrase::Assertion => head::assertion(text, at, end),
            Phrase::Setting => {
                self.expandable = settings::read(text, at, end).unwrap_or(self.expandable);
                None
            }
        };
        let Some(head) = head else { return end };
        let (start, tag) = (head.start, head.tag);
        let offset = self.base + start as u64;
        if self.torn.iter().any(|(own, until)| Some(*own) == tag && offset < *until) {
            return end;
        }
        let (mut message, extent) = Message::read(text, &head);
        if message.expandable == Expandable::Unknown {
            message.expandable = self.expandable;
        }
        let line = self.count_lines(start.max(self.counted)) + 1;
        let place = Place { line, offset };
        (message.place, message.last_place) = (place, place);
        self.folder.add(message);
        match (extent.other, tag) {
            (Some(other), Some(tag)) => {
                self.torn.retain(|(_, until)| *until > offset);
                self.torn.push((tag, self.base + extent.end as u64));
                other
            }
            _ => extent.end,
        }
    }

    /// Lines that end before `to`, in the window.
    fn count_lines(&mut self, to: usize) -> u64 {
        let passed = &self.text[self.counted..to];
        self.lines += passed.iter().fold(0, |lines, byte| lines + u64::from(*byte == b'\n'));
        self.counted = to;
        self.lines
    }

    /// Drops what lies before `to`, in the window.
    fn forget(&mut self, to: usize) {
        self.count_lines(to.max(self.counted));
        self.text.drain(..to);
        self.base += to as u64;
        self.next -= to;
        self.counted -= to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 MiB. GPU 1 has a total \
        capacity of 79.14 GiB of which 4.75 MiB is free. Of the allocated memory 77.59 GiB is allocated by PyTorch, and 8.67 \
        MiB is reserved by PyTorch but unallocated.\n";

    /// Hands out a few bytes at a time, as a pipe may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.0.len()).min(997);
            let (now, later) = self.0.split_at(length);
            buffer[..length].copy_from_slice(now);
            self.0 = later;
            Ok(length)
        }
    }

    #[test]
    fn a_message_is_whole_wherever_the_window_ends() {
        let line = "0123456789 memory of the device\n";
        let lines = (STEP_BYTES * 2 / line.len()) as u64;
        let body = line.repeat(lines as usize);
        for shift in (0..STEP_BYTES + MESSAGE.len()).step_by(7_919).chain([AHEAD_BYTES, AHEAD_BYTES + 1]) {
            let filler = "x".repeat(shift);
            let log = format!("{body}{filler}\n{MESSAGE}{body}");
            let found = scan(Slow(log.as_bytes()));
            let [message] = found.messages.as_slice() else { panic!("{} messages", found.messages.len()) };
            assert_eq!((message.place.line, message.rank), (lines + 2, Some(2)), "{shift}");
            assert_eq!(
                message.place.offset,
                (body.len() + shift + 1 + MESSAGE.find("CUDA").unwrap_or(0)) as u64
            );
            assert!(message.cut_off().is_empty(), "{shift}");
            assert_eq!((found.lines, found.bytes), (2 * lines + 2, log.len() as u64));
        }
    }

    #[test]
    fn what_was_read_before_a_fault_counts() {
        let broken = MESSAGE.as_bytes().chain(Broken);
        let found = scan(broken);
        assert_eq!((found.messages.len(), found.fault.is_some()), (1, true));
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    #[test]
    fn a_last_line_needs_no_end() {
        assert_eq!(scan(&b""[..]).lines, 0);
        assert_eq!(scan(&b"a"[..]).lines, 1);
        assert_eq!(scan(&b"a\nb\n"[..]).lines, 2);
    }
}
