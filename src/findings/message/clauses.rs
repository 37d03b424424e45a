//! Every clause of every form that PyTorch gave its out-of-memory message.
//!
//! Owns the wording and its order. Where the label stands in front of its figure, the figure counts as soon
//! as it is whole; where it stands behind, the label's telling word must be there.

use super::clause::Part::{self, Colon, Device, Digits, Index, Size, Word};
use super::fields::Figure::{
    self, Allocated, Allowed, Free, Private, Process, Requested, Reserved, Total, Unallocated,
};

/// The form of the sentence that holds the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// `(GPU 0; 7.92 GiB total capacity; ...)`: up to 2.0.
    Brackets,
    /// `GPU 0 has a total capacity of ...`: from 2.1 on.
    Sentences,
    /// `Currently allocated     : ...`: the cudaMallocAsync backend.
    Lines,
}

/// What a clause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// A figure.
    Figure(Figure),
    /// The index of the device.
    Device,
    /// What another process holds.
    Other,
    /// `capacity`, or `capacty` as 2.1 spells it; with the figure where that is whole.
    Capacity { is_misspelt: bool },
    /// What lies in the cache, as 1.3 and older call it.
    Cached,
}

/// A clause, and where it stands among the others of its form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clause {
    pub(super) form: Form,
    pub(super) place: u8,
    pub(super) says: Says,
    pub(super) parts: &'static [Part],
}

const fn sentence(place: u8, says: Says, parts: &'static [Part]) -> Clause {
    Clause { form: Form::Sentences, place, says, parts }
}

const fn bracket(place: u8, says: Says, parts: &'static [Part]) -> Clause {
    Clause { form: Form::Brackets, place, says, parts }
}

const fn line(place: u8, says: Says, parts: &'static [Part]) -> Clause {
    Clause { form: Form::Lines, place, says, parts }
}

const fn word(word: &'static [&'static str]) -> Part {
    Word(word)
}

const SPELT: Says = Says::Capacity { is_misspelt: false };
const MISSPELT: Says = Says::Capacity { is_misspelt: true };

/// All of them; the first that fits at a word is taken.
pub(super) static CLAUSES: [Clause; 25] = [
    sentence(1, Says::Device, &[word(&["GPU"]), Device, word(&["has"])]),
    sentence(2, SPELT, &[word(&["capacity"]), word(&["of"]), Size]),
    sentence(2, MISSPELT, &[word(&["capacty"]), word(&["of"]), Size]),
    sentence(2, SPELT, &[word(&["total"]), word(&["capacity"])]),
    sentence(2, MISSPELT, &[word(&["total"]), word(&["capacty"])]),
    sentence(3, Says::Figure(Free), &[word(&["of"]), word(&["which"]), Size]),
    sentence(4, Says::Other, &[word(&["Process"]), Digits, word(&["has"]), Size]),
    sentence(5, Says::Figure(Process), &[word(&["this"]), word(&["process"]), word(&["has"]), Size]),
    sentence(6, Says::Figure(Allowed), &[Size, word(&["allowed"])]),
    sentence(7, Says::Figure(Allocated), &[word(&["allocated"]), word(&["memory"]), Size]),
    sentence(7, Says::Figure(Allocated), &[Size, word(&["is"]), word(&["allocated"])]),
    sentence(8, Says::Figure(Private), &[word(&["with"]), Size, word(&["allocated"]), word(&["in"])]),
    sentence(9, Says::Figure(Unallocated), &[Size, word(&["is"]), word(&["reserved"])]),
    bracket(1, Says::Device, &[word(&["GPU", "NPU", "XPU"]), Index]),
    bracket(2, Says::Figure(Total), &[Size, word(&["total"])]),
    bracket(3, Says::Figure(Allocated), &[Size, word(&["already"])]),
    bracket(4, Says::Figure(Free), &[Size, word(&["free"])]),
    bracket(5, Says::Figure(Allowed), &[Size, word(&["allowed"])]),
    bracket(6, Says::Cached, &[Size, word(&["cached"])]),
    bracket(6, Says::Figure(Reserved), &[Size, word(&["reserved"])]),
    line(2, Says::Figure(Allocated), &[word(&["Currently"]), word(&["allocated"]), Colon, Size]),
    line(3, Says::Figure(Requested), &[word(&["Requested"]), Colon, Size]),
    line(4, Says::Figure(Total), &[word(&["Device"]), word(&["limit"]), Colon, Size]),
    line(
        5,
        Says::Figure(Free),
        &[word(&["according"]), word(&["to"]), word(&["CUDA", "HIP", "TOPS"]), Colon, Size],
    ),
    line(6, Says::Figure(Allowed), &[word(&["fraction"]), Colon, Size]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clauses_of_a_form_stand_in_order() {
        for form in [Form::Brackets, Form::Sentences, Form::Lines] {
            let places: Vec<u8> =
                CLAUSES.iter().filter(|clause| clause.form == form).map(|clause| clause.place).collect();
            assert!(places.is_sorted(), "{form:?}");
        }
        assert!(CLAUSES.iter().all(|clause| !clause.parts.is_empty()));
    }
}
