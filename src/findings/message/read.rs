//! A message as it was read: its place, its origin, its figures.
//!
//! Owns putting a head and its clauses together. Judges nothing.

use super::clause::{Part, words};
use super::clauses::Form;
use super::fields::{self, Fields, Figure, OtherProcess};
use super::head::Head;
use super::kind::{Kind, Platform};
use super::requested;
use super::size::Size;
use super::tip::Tip;
use super::tokens::Tokens;
use super::variant::{self, ClassAge, Variant};

/// Words of the text that are kept.
const TEXT_WORDS: usize = 600;
/// Words of a text without figures.
const PHRASE_WORDS: usize = 24;
/// Characters of the front that are kept.
const PREFIX_CHARACTERS: usize = 120;

/// What is known of expandable segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expandable {
    /// Nothing.
    #[default]
    Unknown,
    /// They are on: the log shows the setting, or the message leaves out its tip.
    On,
    /// The platform has none, says the log.
    NotSupported,
}

/// Where in a log a message stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Offset of its first byte in the unpacked log.
    pub offset: u64,
}

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) end: usize,
    /// Where in it lines of other processes begin.
    pub(super) other: Option<usize>,
}

/// An out-of-memory message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it stands first.
    pub place: Place,
    /// Where it stands last.
    pub last_place: Place,
    /// How often the log has it.
    pub count: u64,
    /// What kind it is.
    pub kind: Kind,
    /// Device kind.
    pub platform: Platform,
    /// Generations that the text fits, the likeliest first.
    pub variants: Vec<Variant>,
    /// Class of the exception that carried it.
    pub class: Option<String>,
    /// What stood in front of it on its line.
    pub prefix: String,
    /// Rank that the prefix names.
    pub rank: Option<u32>,
    /// Number that tells the process apart from others in the same log.
    pub(super) process_key: Option<u64>,
    /// Index of the device.
    pub device: Option<u32>,
    /// Other processes that it names.
    pub others: Vec<OtherProcess>,
    /// What is known of expandable segments.
    pub expandable: Expandable,
    /// The message itself, in one line.
    pub text: String,
    /// What its clauses said.
    pub(super) fields: Fields,
}

impl Message {
    /// Reads the message that begins with `head`, and says where it lies in `text`.
    pub(super) fn read(text: &[u8], head: &Head<'_>) -> (Self, Extent) {
        let mut tokens = Tokens::new(&text[head.start..], head.prefix(), head.tag);
        let behind_head = behind(&mut tokens, head.figures - head.start);
        let (fields, end) = match head.kind {
            Kind::Allocator => allocator(&mut tokens, behind_head),
            Kind::Async => {
                let (with_device, behind) = on_device(&mut tokens);
                let (fields, end) = fields::read(&mut tokens, behind, &[Form::Lines], with_device);
                (fields, end.max(end_of_line(&mut tokens, behind)))
            }
            _ => (Fields::default(), end_of_line(&mut tokens, behind_head)),
        };
        let end_bytes = end.checked_sub(1).and_then(|last| tokens.get(last).map(|word| word.end));
        let class = head.class.map(str::to_owned);
        let variants = variants(head, &fields, class.as_deref());
        let is_on = variants.first() == Some(&Variant::V7) && variant::lacks_its_tip(&fields);
        let message = Self {
            place: Place::default(),
            last_place: Place::default(),
            count: 1,
            kind: head.kind,
            platform: head.platform,
            variants,
            class,
            prefix: shortened(head.front),
            rank: head.tag.and_then(super::tag::Tag::rank),
            process_key: head.tag.map(super::tag::Tag::key),
            device: fields.device,
            others: fields.others.clone(),
            expandable: if is_on { Expandable::On } else { Expandable::Unknown },
            text: tokens.joined(0, end.min(TEXT_WORDS)),
            fields,
        };
        let end = head.start + end_bytes.unwrap_or(head.figures - head.start);
        let other = tokens.first_skipped().map(|skipped| head.start + skipped).filter(|other| *other < end);
        (message, Extent { end, other })
    }

    /// The generation of the text; the oldest that fits where it was cut off.
    #[must_use]
    pub fn variant(&self) -> Variant {
        self.variants.first().copied().unwrap_or(Variant::V10)
    }

    /// A figure as it is printed; `None` when it is not, was cut off, or the driver had no answer.
    #[must_use]
    pub fn figure(&self, figure: Figure) -> Option<Size> {
        self.fields.size(figure)
    }

    /// Figures for which the driver had no answer, or of which there is no limit.
    #[must_use]
    pub fn no_answer(&self) -> &[Figure] {
        &self.fields.no_answer
    }

    /// Figures that such a message prints and this one lacks: it was cut off.
    #[must_use]
    pub fn cut_off(&self) -> Vec<Figure> {
        use Figure::{Allocated, Free, Requested, Reserved, Total, Unallocated};
        let last = match (self.kind, self.fields.form) {
            (Kind::Allocator, Some(Form::Brackets)) if !self.fields.says_cached => Some(Reserved),
            (Kind::Allocator, _) => Some(Unallocated),
            (Kind::Async, _) => None,
            _ => return Vec::new(),
        };
        let expected = [Requested, Total, Free, Allocated].into_iter().chain(last);
        expected
            .filter(|figure| self.figure(*figure).is_none() && !self.no_answer().contains(figure))
            .collect()
    }

    /// Whether the message would name a limit and this one may have lost it.
    pub(super) fn may_hide_a_limit(&self) -> bool {
        let is_said = self.fields.form != Some(Form::Sentences) || self.figure(Figure::Allocated).is_some();
        self.figure(Figure::Allowed).is_none() && !is_said && self.variant() >= Variant::V6
    }

    /// Whether this version prints no limit even where there is one.
    pub(super) fn never_names_a_limit(&self) -> bool {
        matches!(self.variant(), Variant::V4 | Variant::V5)
    }

    pub(super) fn form(&self) -> Option<Form> {
        self.fields.form
    }

    pub(super) fn tip(&self) -> Tip {
        self.fields.tip
    }
}

/// Index of the first word that ends behind `offset`.
fn behind(tokens: &mut Tokens<'_>, offset: usize) -> usize {
    let mut index = 0;
    while tokens.get(index).is_some_and(|word| word.end <= offset) {
        index += 1;
    }
    index
}

fn allocator(tokens: &mut Tokens<'_>, start: usize) -> (Fields, usize) {
    let mut fields = Fields::default();
    let found = (start..start + 3).find_map(|at| requested::find(tokens, at));
    let mut from = start;
    if let Some(requested) = found {
        from = requested.end;
        if let Some(reading) = requested.size {
            fields.note(Figure::Requested, reading);
        }
    }
    fields::read(tokens, from, &[Form::Brackets, Form::Sentences], fields)
}

/// The device of `Allocation on device 0 would exceed`, and the index of a word behind it.
fn on_device(tokens: &mut Tokens<'_>) -> (Fields, usize) {
    let start = [Part::Word(&["Allocation"]), Part::Word(&["on"]), Part::Word(&["device"])];
    let behind = words(tokens, 0, &start).map_or(1, |held| held.end);
    let device = words(tokens, behind, &[Part::Device, Part::Word(&["would"])]).and_then(|held| held.number);
    let device = device.and_then(|number| u32::try_from(number).ok());
    (Fields { device, ..Fields::default() }, behind)
}

fn end_of_line(tokens: &mut Tokens<'_>, start: usize) -> usize {
    let mut end = start;
    while end < start + PHRASE_WORDS && tokens.get(end).is_some_and(|word| !word.begins_line) {
        end += 1;
    }
    end
}

fn variants(head: &Head<'_>, fields: &Fields, class: Option<&str>) -> Vec<Variant> {
    match (head.kind, head.platform) {
        (Kind::Allocator, Platform::Cuda) => variant::candidates(fields, ClassAge::of(class)),
        (Kind::Allocator, _) => vec![Variant::V9],
        (Kind::Async, _) => vec![Variant::V8],
        (Kind::Oldest, _) => vec![Variant::V0],
        _ => vec![Variant::V10],
    }
}

/// The end of `front` as text: what is nearest to the message says most.
fn shortened(front: &[u8]) -> String {
    let text = String::from_utf8_lossy(front);
    let text = text.trim();
    let length = text.chars().count();
    text.chars().skip(length.saturating_sub(PREFIX_CHARACTERS)).collect()
}
