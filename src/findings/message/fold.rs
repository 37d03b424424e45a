//! Repeats of a message become one with a count.
//!
//! Owns what a repeat is: the same figures, to the last digit, from the same process. A traceback is often
//! printed twice, and a logger may print the beginning of what follows in full. Nothing is dropped silently:
//! repeats are counted, and so are messages beyond the number that is kept.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::fields::{Figure, OtherProcess};
use super::kind::{Kind, Platform};
use super::read::{Expandable, Message};
use super::tip::Tip;
use super::variant::ClassAge;

/// Different messages that are kept per log.
const MOST_MESSAGES: usize = 10_000;

/// What repeats have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    process: Option<u64>,
    kind: Kind,
    platform: Platform,
    figures: [Option<u64>; Figure::ALL.len()],
    others: Vec<OtherProcess>,
    device: Option<u32>,
    is_misspelt: Option<bool>,
    /// Of messages without figures.
    text: String,
}

impl Key {
    fn of(message: &Message) -> Self {
        let has_figures = matches!(message.kind, Kind::Allocator | Kind::Async);
        Self {
            process: message.process_key,
            kind: message.kind,
            platform: message.platform,
            figures: Figure::ALL.map(|figure| message.figure(figure).map(|size| size.bytes)),
            others: message.others.clone(),
            device: message.device,
            is_misspelt: message.fields.is_misspelt,
            text: if has_figures { String::new() } else { message.text.clone() },
        }
    }
}

/// Messages so far.
#[derive(Default)]
pub(super) struct Folder {
    messages: Vec<Message>,
    known: HashMap<Key, usize, FxBuildHasher>,
    last_of_process: HashMap<Option<u64>, usize, FxBuildHasher>,
    left_out: u64,
}

impl Folder {
    pub(super) fn add(&mut self, message: Message) {
        let process = message.process_key;
        let key = Key::of(&message);
        let same = self.known.get(&key).copied().filter(|at| may_be_one(&self.messages[*at], &message));
        if let Some(at) = same.or_else(|| self.same_but_cut(&message)) {
            repeat(&mut self.messages[at], message);
            self.known.insert(key, at);
        } else if self.messages.len() < MOST_MESSAGES {
            self.known.insert(key, self.messages.len());
            self.last_of_process.insert(process, self.messages.len());
            self.messages.push(message);
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn finish(self) -> (Vec<Message>, u64) {
        (self.messages, self.left_out)
    }

    /// The message right before, of the same process, when one of the two is the other with its end cut off.
    fn same_but_cut(&self, message: &Message) -> Option<usize> {
        let at = *self.last_of_process.get(&message.process_key)?;
        let last = self.messages.get(at)?;
        let is_alike =
            last.kind == message.kind && last.platform == message.platform && last.device == message.device;
        let forms = [last.form(), message.form()];
        let is_alike = is_alike && (forms[0] == forms[1] || forms.contains(&None));
        let starts_alike = [Figure::Requested, Figure::Total, Figure::Free].iter().all(|figure| {
            message.figure(*figure).is_some() && message.figure(*figure) == last.figure(*figure)
        });
        let agrees = Figure::ALL.iter().all(|figure| {
            let both = message.figure(*figure).zip(last.figure(*figure));
            both.is_none_or(|(one, other)| one == other)
        });
        let is_cut = !message.fields.is_closed || !last.fields.is_closed;
        (is_alike && starts_alike && agrees && is_cut && may_be_one(last, message)).then_some(at)
    }
}

/// Whether nothing in two messages with the same figures says that different versions wrote them.
fn may_be_one(one: &Message, other: &Message) -> bool {
    let ages = [one, other].map(|message| ClassAge::of(message.class.as_deref()));
    let same_age = ages[0] == ages[1] || ages.contains(&ClassAge::Unknown);
    let tips = [one, other].map(|message| message.fields.tip);
    let lacks = [one, other].map(|message| message.fields.tip == Tip::None && message.fields.is_closed);
    let same_tip = match tips {
        [one, other] if one == other => true,
        [Tip::None | Tip::Unnamed, _] => !lacks[0],
        [_, Tip::None | Tip::Unnamed] => !lacks[1],
        _ => false,
    };
    let spellings = [one.fields.is_misspelt, other.fields.is_misspelt];
    same_age && same_tip && (spellings[0] == spellings[1] || spellings.contains(&None))
}

/// Counts `again` as a repeat of `first`, which keeps its place and takes what the repeat says more.
fn repeat(first: &mut Message, again: Message) {
    let more_figures = again.cut_off().len() < first.cut_off().len();
    let is_fuller = more_figures || first.fields.tip == Tip::None && again.fields.tip != Tip::None;
    let count = first.count + 1;
    let (place, last_place) = (first.place, again.place);
    let class = first.class.take().or_else(|| again.class.clone());
    if is_fuller {
        let prefix = std::mem::take(&mut first.prefix);
        *first = Message { prefix, ..again };
    } else if first.variants.len() > again.variants.len() {
        first.variants = again.variants;
    }
    if first.expandable == Expandable::Unknown {
        first.expandable = again.expandable;
    }
    (first.place, first.last_place, first.count, first.class) = (place, last_place, count, class);
}
