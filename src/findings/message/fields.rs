//! The figures of a message, clause by clause.
//!
//! Owns the walk over the words of a message and where it ends. Between two clauses anything may stand (an
//! ellipsis, a prefix), but a message ends where another begins, where a clause stands that should have come
//! before, or where nothing of it follows for a while. What is cut off gives nothing: never half a number.

use super::clause::{self, Held, Part};
use super::clauses::{CLAUSES, Clause, Form, Says};
use super::size::{Reading, Size};
use super::tip::{self, Tip};
use super::tokens::Tokens;

/// Words without a clause among them, after which a message is over.
const IDLE_WORDS: usize = 160;
/// More processes than share a device.
const MOST_OTHERS: usize = 512;

/// A figure of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// What was asked from the driver.
    Requested,
    /// Memory of the device.
    Total,
    /// What the driver had left.
    Free,
    /// What this process held, its context included.
    Process,
    /// What this process was allowed to reserve.
    Allowed,
    /// Blocks handed out, and free ones in private pools.
    Allocated,
    /// Free blocks in private pools.
    Private,
    /// Held by PyTorch, but free.
    Unallocated,
    /// Held by PyTorch in all.
    Reserved,
}

impl Figure {
    /// In the order in which they are printed, roughly.
    pub(super) const ALL: [Self; 9] = [
        Self::Requested,
        Self::Total,
        Self::Free,
        Self::Process,
        Self::Allowed,
        Self::Allocated,
        Self::Private,
        Self::Unallocated,
        Self::Reserved,
    ];

    /// As the JSON calls it, without its unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Total => "total",
            Self::Free => "free",
            Self::Process => "process",
            Self::Allowed => "allowed",
            Self::Allocated => "allocated",
            Self::Private => "private_pool",
            Self::Unallocated => "unallocated",
            Self::Reserved => "reserved",
        }
    }
}

/// Another process that the message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OtherProcess {
    /// Its number, as the driver counts.
    pub process: u64,
    /// What it holds; `None` when the driver had no answer.
    pub held: Option<Size>,
}

/// What the clauses said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fields {
    /// In the order of [`Figure::ALL`].
    pub(super) sizes: [Option<Size>; Figure::ALL.len()],
    /// Figures for which the driver had no answer, or of which there is no limit.
    pub(super) no_answer: Vec<Figure>,
    pub(super) others: Vec<OtherProcess>,
    pub(super) device: Option<u32>,
    pub(super) form: Option<Form>,
    /// `capacity` or, when true, `capacty`.
    pub(super) is_misspelt: Option<bool>,
    pub(super) says_cached: bool,
    pub(super) tip: Tip,
    /// Links to the newer documentation.
    pub(super) newer_link: bool,
    /// The last clause is whole and the log goes on behind it.
    pub(super) is_closed: bool,
}

impl Fields {
    pub(super) fn size(&self, figure: Figure) -> Option<Size> {
        self.sizes[figure as usize]
    }

    pub(super) fn set(&mut self, figure: Figure, size: Size) {
        self.sizes[figure as usize] = Some(size);
    }

    fn has(&self, figure: Figure) -> bool {
        self.size(figure).is_some() || self.no_answer.contains(&figure)
    }

    pub(super) fn note(&mut self, figure: Figure, reading: Reading) {
        match reading {
            Reading::Size(size) => self.set(figure, size),
            Reading::NoAnswer => self.no_answer.push(figure),
        }
    }

    /// Takes a clause in; false when the message has it already, so that it belongs to something else.
    fn take(&mut self, clause: &Clause, held: Held) -> bool {
        match (clause.says, held.size) {
            (Says::Device, _) => {
                self.device = held.number.and_then(|number| u32::try_from(number).ok());
                true
            }
            (Says::Other, Some(reading)) => {
                let held_size = match reading {
                    Reading::Size(size) => Some(size),
                    Reading::NoAnswer => None,
                };
                let process = held.number.unwrap_or_default();
                self.others.push(OtherProcess { process, held: held_size });
                self.others.len() < MOST_OTHERS
            }
            (Says::Capacity { is_misspelt }, size) => {
                self.is_misspelt = Some(is_misspelt);
                size.is_none_or(|reading| self.take_figure(Figure::Total, reading))
            }
            (Says::Cached, Some(reading)) => {
                self.says_cached = true;
                self.take_figure(Figure::Unallocated, reading)
            }
            (Says::Figure(figure), Some(reading)) => self.take_figure(figure, reading),
            (Says::Other | Says::Cached | Says::Figure(_), None) => false,
        }
    }

    fn take_figure(&mut self, figure: Figure, reading: Reading) -> bool {
        let is_new = !self.has(figure);
        if is_new {
            self.note(figure, reading);
        }
        is_new
    }
}

/// Reads the clauses from the word `start` on; the second value is the index behind the last word of the
/// message.
pub(super) fn read(
    tokens: &mut Tokens<'_>,
    start: usize,
    forms: &[Form],
    mut fields: Fields,
) -> (Fields, usize) {
    let (mut at, mut end, mut place) = (start, start, 0);
    while at < end + IDLE_WORDS && tokens.get(at).is_some() && !begins_another(tokens, at) {
        let Some((clause, held)) = clause_at(tokens, at, end, forms, fields.form) else {
            at += 1;
            continue;
        };
        // A spelling without its figure leaves the word to the clause that has both.
        let is_spelling = matches!(clause.says, Says::Capacity { .. }) && held.size.is_none();
        if clause.place < place || !fields.take(clause, held) {
            break;
        }
        (place, fields.form) = (clause.place, Some(clause.form));
        (at, end) = if is_spelling { (at + 1, held.end) } else { (held.end, held.end) };
    }
    let has_last = fields.has(Figure::Unallocated) || fields.has(Figure::Reserved);
    if has_last && fields.form != Some(Form::Lines) {
        end = tip::read(tokens, end, &mut fields);
    }
    (fields, end)
}

fn clause_at(
    tokens: &mut Tokens<'_>,
    at: usize,
    since: usize,
    forms: &[Form],
    form: Option<Form>,
) -> Option<(&'static Clause, Held)> {
    let may = |clause: &&Clause| form.map_or(forms.contains(&clause.form), |form| form == clause.form);
    CLAUSES
        .iter()
        .filter(may)
        .find_map(|clause| Some((clause, clause::find(tokens, at, since, clause.parts)?)))
}

/// Whether another message begins at the word `at`.
pub(super) fn begins_another(tokens: &mut Tokens<'_>, at: usize) -> bool {
    const STARTS: [&[Part]; 4] = [
        &[
            Part::Word(&["CUDA", "HIP", "XPU"]),
            Part::Word(&["out"]),
            Part::Word(&["of"]),
            Part::Word(&["memory"]),
        ],
        &[Part::Word(&["Out"]), Part::Word(&["of"]), Part::Word(&["memory"])],
        &[Part::Word(&["Tried"]), Part::Word(&["to"]), Part::Word(&["allocate"])],
        &[Part::Word(&["Allocation"]), Part::Word(&["on"]), Part::Word(&["device"])],
    ];
    STARTS.iter().any(|start| clause::words(tokens, at, start).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ". GPU 3 has a total capacity of 79.14 GiB of which 74.75 MiB is free. Process 7 has 1.00 GiB \
        memory in use. Process 8 has 17179869184.00 GiB memory in use. Including non-PyTorch memory, this process has \
        78.06 GiB memory in use. 78.50 GiB allowed; Of the allocated memory 76.59 GiB is allocated by PyTorch, with \
        46.00 MiB allocated in private pools (e.g., CUDA Graphs), and 818.67 MiB is reserved by PyTorch but unallocated.";

    fn fields(text: &str) -> Fields {
        let mut tokens = Tokens::new(text.as_bytes(), b"", None);
        read(&mut tokens, 0, &[Form::Brackets, Form::Sentences], Fields::default()).0
    }

    fn hundredths(fields: &Fields, figure: Figure) -> Option<u64> {
        fields.size(figure).map(|size| (size.bytes * 100 + (1 << 19)) >> 20)
    }

    #[test]
    fn every_clause_of_the_long_form_is_read() {
        let fields = fields(TEXT);
        let sizes = Figure::ALL.map(|figure| hundredths(&fields, figure));
        assert_eq!(
            sizes,
            [
                None,
                Some(8_103_936),
                Some(7_475),
                Some(7_993_344),
                Some(8_038_400),
                Some(7_842_816),
                Some(4_600),
                Some(81_867),
                None
            ]
        );
        assert_eq!(fields.device, Some(3));
        let others: Vec<_> = fields
            .others
            .iter()
            .map(|other| (other.process, other.held.map(|held| held.bytes >> 30)))
            .collect();
        assert_eq!(others, [(7, Some(1)), (8, None)]);
        assert_eq!(fields.is_misspelt, Some(false));
    }

    #[test]
    fn an_ellipsis_may_stand_for_what_was_left_out() {
        let fields = fields(
            "... total capacity of 79.33 GiB of which 26.16 GiB is free. ... 11.97 GiB is allocated by PyTorch, and 40.69 GiB is reserved",
        );
        assert_eq!(hundredths(&fields, Figure::Allocated), Some(1_225_728));
        assert_eq!(fields.device, None);
    }

    #[test]
    fn a_message_ends_where_another_begins() {
        let cut = ". GPU 0 has a total capacity of 1.00 GiB of which 2.0";
        for next in ["CUDA out of memory. ", "Tried to allocate 1.00 GiB. ", "Allocation on device 0 would "]
        {
            let text = format!("{cut}\n{next}{TEXT}");
            assert_eq!(fields(&text).size(Figure::Free), None, "{text}");
        }
        let back = format!("{cut}\n GPU 1 has a total capacity of 3.00 GiB of which 4.00 GiB is free.");
        assert_eq!(fields(&back).size(Figure::Free), None, "a clause that had its turn");
        let late = format!("{cut}\n{}5.00 GiB is reserved", "word ".repeat(IDLE_WORDS));
        assert_eq!(fields(&late).size(Figure::Unallocated), None);
    }

    #[test]
    fn the_same_clause_twice_is_not_of_the_same_message() {
        let fields =
            fields(". GPU 0 has a total capacity of 1.00 GiB of which 2.00 MiB is free. of which 3.00 MiB");
        assert_eq!(hundredths(&fields, Figure::Free), Some(200));
    }
}
