//! Where a message begins, what kind it is, and who said it.
//!
//! Owns the phrases that tell of a device out of memory from all the text of a log that does not: other
//! processes' (`Out of memory: Killed process`), other devices' (`MPS backend out of memory`), and lines of
//! source code that a traceback quotes. Reads no figures.

use super::clause::{self, Part};
use super::front::{is_source, last_word, line_start, phrase, without_class, words_before};
use super::kind::{Kind, Platform};
use super::requested;
use super::tag::Tag;
use super::tokens::{Token, Tokens};

/// What each line carries in front is no longer than that.
const PREFIX_BYTES: usize = 160;

const OUT_OF_MEMORY: [Part; 3] = [Part::Word(&["out"]), Part::Word(&["of"]), Part::Word(&["memory"])];

const ON_DEVICE: [Part; 3] = [Part::Word(&["Allocation"]), Part::Word(&["on"]), Part::Word(&["device"])];

/// The beginning of a message.
#[derive(Clone, Debug)]
pub(super) struct Head<'a> {
    pub(super) kind: Kind,
    pub(super) platform: Platform,
    /// Where the text itself begins, behind prefix and class.
    pub(super) start: usize,
    /// Where its figures may begin.
    pub(super) figures: usize,
    pub(super) class: Option<&'a str>,
    /// What stands in front on its line.
    pub(super) front: &'a [u8],
    pub(super) tag: Option<Tag>,
}

impl<'a> Head<'a> {
    /// A head of `kind` whose text goes from `start` to `figures` in `text`.
    fn new(text: &'a [u8], kind: Kind, platform: Platform, start: usize, figures: usize) -> Self {
        let line = line_start(text, start);
        let (front, class) = without_class(&text[line..start]);
        Self { kind, platform, start, figures, class, front, tag: Tag::of(front) }
    }

    /// What each line of the message may carry in front.
    pub(super) fn prefix(&self) -> &'a [u8] {
        &self.front[..self.front.len().min(PREFIX_BYTES)]
    }
}

/// `out of memory` at `at`.
pub(super) fn out_of_memory(text: &[u8], at: usize) -> Option<Head<'_>> {
    let figures = at + "out of memory".len();
    let word = last_word(text, at);
    let begin = |kind, platform, start| Some(Head::new(text, kind, platform, start, figures));
    if let Some(platform) = Platform::of(text[word..at].trim_ascii_end()) {
        return begin(Kind::Allocator, platform, word).filter(|head| is_allocators(text, head));
    }
    let before = words_before(text, at);
    if before.ends_with("cuda runtime error (2) :") {
        return begin(Kind::Oldest, Platform::Cuda, phrase(text, at, b"cuda runtime error"));
    }
    if before.ends_with("error=2 :") {
        return begin(Kind::Oldest, Platform::Cuda, phrase(text, at, b"THCudaCheck"));
    }
    if is_source(text, at) {
        return None;
    }
    for (words, first, platform) in [
        ("CUDA error:", "CUDA", Platform::Cuda),
        ("CUDA driver error:", "CUDA", Platform::Cuda),
        ("CUDA runtime error:", "CUDA", Platform::Cuda),
        ("HIP error:", "HIP", Platform::Hip),
    ] {
        if before.ends_with(words) {
            return begin(Kind::Driver, platform, phrase(text, at, first.as_bytes()));
        }
    }
    let quoted = before.strip_suffix(['\'', '"']).map(|rest| rest.trim_end_matches('\\'));
    if quoted.is_some_and(|rest| rest.ends_with("Cuda failure 2 ") || rest.ends_with("Cuda failure ")) {
        return begin(Kind::Library("NCCL"), Platform::Cuda, phrase(text, at, b"Cuda failure"));
    }
    if text[at] == b'O' {
        // Allocators that are not of one device alone.
        return begin(Kind::Allocator, Platform::Other, at).filter(|head| says_tried(text, head));
    }
    None
}

/// `Tried` at `at`, where the words in front of it were lost or torn apart by line breaks.
pub(super) fn tried(text: &[u8], at: usize) -> Option<Head<'_>> {
    // Most of what somebody tried is told apart by a glance at the next word.
    if matches!(&text[at + "Tried".len()..], [b' ', next, ..] if next.is_ascii_alphanumeric() && *next != b't')
    {
        return None;
    }
    let bare = Head::new(text, Kind::Allocator, Platform::Cuda, at, at);
    if !says_tried(text, &bare) {
        return None;
    }
    let Some((start, platform)) = torn_out_of_memory(text, at) else {
        let has_class = bare.class.is_some_and(|class| class.ends_with("OutOfMemoryError"));
        return (has_class || says_device(text, at)).then_some(bare);
    };
    Some(Head::new(text, Kind::Allocator, platform, start, at))
}

/// The nearest name of a platform in front of `at` with `out of memory` behind it, however that is broken.
fn torn_out_of_memory(text: &[u8], at: usize) -> Option<(usize, Platform)> {
    const NEAR_BYTES: usize = 200;
    const MOST_NAMES: usize = 3;
    let from = at.saturating_sub(NEAR_BYTES);
    let begins_word = |place: &usize| {
        text[*place].is_ascii_uppercase() && (*place == 0 || !text[*place - 1].is_ascii_alphanumeric())
    };
    let named = (from..at).rev().filter(begins_word).filter_map(|place| {
        let length = text[place..at].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        Some((place, Platform::of(&text[place..place + length])?))
    });
    named.take(MOST_NAMES).find(|(place, platform)| {
        let head = Head::new(text, Kind::Allocator, *platform, *place, at);
        let mut tokens = Tokens::new(&text[*place..], head.prefix(), head.tag);
        clause::words(&mut tokens, 1, &OUT_OF_MEMORY).is_some()
    })
}

/// `Allocation` at `at`; on which device it fails may be lost with the rest of the line.
pub(super) fn on_device(text: &[u8], at: usize) -> Option<Head<'_>> {
    const WOULD_EXCEED: [Part; 2] = [Part::Word(&["would"]), Part::Word(&["exceed"])];
    let head = Head::new(text, Kind::Async, Platform::Cuda, at, at);
    let mut tokens = Tokens::new(&text[at..], head.prefix(), head.tag);
    let behind = clause::words(&mut tokens, 0, &ON_DEVICE)?.end;
    let would = (behind..behind + 2).any(|index| clause::words(&mut tokens, index, &WOULD_EXCEED).is_some());
    let is_cut = head.class.is_some_and(|class| class.ends_with("OutOfMemoryError"));
    (would || is_cut).then_some(head)
}

/// A word that alone tells of a failed allocation; a part of it stands at `at..end`.
pub(super) fn word(text: &[u8], at: usize, end: usize) -> Option<Head<'_>> {
    let first = last_word(text, at + 1);
    let word = &text[first..end];
    let (kind, platform) = if word.ends_with(b"ALLOC_FAILED") {
        let library = LIBRARIES.iter().find(|(prefix, ..)| word.starts_with(prefix.as_bytes()))?;
        (Kind::Library(library.1), library.2)
    } else {
        let platform = match word.first() {
            Some(b'h') => Platform::Hip,
            Some(b'U') => Platform::Xpu,
            _ => Platform::Cuda,
        };
        (Kind::Driver, platform)
    };
    let is_named = words_before(text, first).ends_with(" error:");
    let start = if is_named { last_word(text, phrase(text, first, b" error:")) } else { first };
    (!is_source(text, at)).then(|| Head::new(text, kind, platform, start, end))
}

const LIBRARIES: [(&str, &str, Platform); 8] = [
    ("CUBLAS_", "cuBLAS", Platform::Cuda),
    ("CUDNN_", "cuDNN", Platform::Cuda),
    ("CUSOLVER_", "cuSOLVER", Platform::Cuda),
    ("CUSPARSE_", "cuSPARSE", Platform::Cuda),
    ("CUFFT_", "cuFFT", Platform::Cuda),
    ("HIPBLAS_", "hipBLAS", Platform::Hip),
    ("HIPSPARSE_", "hipSPARSE", Platform::Hip),
    ("HIPFFT_", "hipFFT", Platform::Hip),
];

/// `INTERNAL ASSERT FAILED` at `at..end`, if it is the allocator's.
pub(super) fn assertion(text: &[u8], at: usize, end: usize) -> Option<Head<'_>> {
    const CONDITIONS: [(&[u8], Kind); 3] = [
        (b"NVML_SUCCESS", Kind::Query),
        (b"!handles_", Kind::Assertion),
        (b"!block->expandable_segment_", Kind::Assertion),
    ];
    if is_source(text, at) {
        return None;
    }
    let behind = &text[end..text.len().min(end + 240)];
    let is_allocators = behind.windows(16).any(|part| part == b"CachingAllocator");
    let named = CONDITIONS.iter().find_map(|(condition, kind)| {
        let start = phrase(text, at, condition);
        (start < at).then_some((start, *kind))
    });
    let (start, kind) = match named {
        Some(found) => found,
        None if is_allocators => (last_word(text, at), Kind::Assertion),
        None => return None,
    };
    let is_hip = behind.windows(19).any(|part| part == b"HIPCachingAllocator");
    Some(Head::new(text, kind, if is_hip { Platform::Hip } else { Platform::Cuda }, start, end))
}

/// Whether `CUDA out of memory` is the allocator's: a size follows, or the text was cut off before it.
fn is_allocators(text: &[u8], head: &Head<'_>) -> bool {
    says_tried(text, head) || is_cut(text, head)
}

/// Whether `Tried to allocate` and a size follow, or as much of it as was not cut off.
fn says_tried(text: &[u8], head: &Head<'_>) -> bool {
    let mut tokens = Tokens::new(&text[head.figures..], head.prefix(), head.tag);
    let mut at = 0;
    while at < 3 && tokens.get(at).is_some_and(|word| word.bare().is_empty()) {
        at += 1;
    }
    requested::find(&mut tokens, at).is_some()
}

/// Whether the text breaks off within its first words, and an exception said it.
fn is_cut(text: &[u8], head: &Head<'_>) -> bool {
    if is_source(text, head.start) {
        return false;
    }
    let mut tokens = Tokens::new(&text[head.figures..], head.prefix(), head.tag);
    let at = usize::from(tokens.get(0).is_some_and(|word| word.bare().is_empty()));
    let is_over = |word: Option<&Token<'_>>| word.is_none_or(|word| word.begins_line);
    if is_over(tokens.get(at)) {
        return head.class.is_some();
    }
    let words = [&b"Tried"[..], b"to", b"allocate"];
    let said = words
        .iter()
        .enumerate()
        .take_while(|(index, word)| tokens.get(at + index).is_some_and(|found| found.bare() == **word));
    let said = said.count();
    let last = tokens.get(at + said);
    let is_part =
        last.is_some_and(|word| words.get(said).is_some_and(|whole| whole.starts_with(word.bare())));
    is_over(tokens.get(at + said)) || is_part && is_over(tokens.get(at + said + 1))
}

/// Whether a device follows close behind `Tried to allocate SIZE`.
fn says_device(text: &[u8], at: usize) -> bool {
    let mut tokens = Tokens::new(&text[at..], &[], None);
    (5..8).any(|index| tokens.get(index).is_some_and(|word| matches!(word.bare(), b"GPU" | b"NPU" | b"XPU")))
}
