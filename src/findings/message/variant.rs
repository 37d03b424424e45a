//! Which generation of PyTorch wrote a message.
//!
//! Owns the variants of the text, the versions that print them, and what tells them apart. A text that was
//! cut off fits several; then the oldest is named, and all are listed.

use super::clauses::Form;
use super::fields::{Fields, Figure};
use super::tip::Tip;

/// A generation of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// `cuda runtime error (2) : out of memory`.
    V0,
    /// `... C cached)`.
    V1,
    /// `... R reserved in total by PyTorch)`.
    V2,
    /// The same with the limit of a memory fraction.
    V2L,
    /// The same with a tip about `max_split_size_mb`.
    V3,
    /// Sentences, with `capacty`.
    V4,
    /// Sentences, with a tip about expandable segments.
    V5,
    /// The same, which may name a limit and private pools.
    V6,
    /// The same, with `PYTORCH_ALLOC_CONF`; the tip may be left out.
    V7,
    /// The cudaMallocAsync backend.
    V8,
    /// Devices other than CUDA's.
    V9,
    /// Not from the allocator's own message.
    V10,
}

impl Variant {
    /// Its name in the JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V0 => "V0",
            Self::V1 => "V1",
            Self::V2 => "V2",
            Self::V2L => "V2L",
            Self::V3 => "V3",
            Self::V4 => "V4",
            Self::V5 => "V5",
            Self::V6 => "V6",
            Self::V7 => "V7",
            Self::V8 => "V8",
            Self::V9 => "V9",
            Self::V10 => "V10",
        }
    }

    /// Who prints it.
    #[must_use]
    pub fn printed_by(self) -> &'static str {
        match self {
            Self::V0 => "PyTorch up to 0.4",
            Self::V1 => "PyTorch 1.0 to 1.3",
            Self::V2 => "PyTorch 1.4 to 1.9",
            Self::V2L => "PyTorch 1.8 to 2.0 with a memory fraction",
            Self::V3 => "PyTorch 1.10 to 2.0",
            Self::V4 => "PyTorch 2.1",
            Self::V5 => "PyTorch 2.2 to 2.4",
            Self::V6 => "PyTorch 2.4 to 2.9",
            Self::V7 => "PyTorch 2.10 or newer",
            Self::V8 => "PyTorch with the cudaMallocAsync backend",
            Self::V9 => "PyTorch for another kind of device",
            Self::V10 => "the driver or a library",
        }
    }

    /// Whether this version knows expandable segments.
    pub(super) fn has_expandable_segments(self) -> bool {
        self >= Self::V4
    }
}

/// The class of the exception, as far as it tells versions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassAge {
    /// `torch.cuda.OutOfMemoryError`: 1.13 to 2.4.
    Middle,
    /// `torch.OutOfMemoryError`: from 2.5 on.
    New,
    /// No class, or one that says nothing.
    Unknown,
}

impl ClassAge {
    pub(super) fn of(class: Option<&str>) -> Self {
        match class {
            Some("torch.OutOfMemoryError") => Self::New,
            Some("torch.cuda.OutOfMemoryError") => Self::Middle,
            _ => Self::Unknown,
        }
    }

    fn allows(self, variant: Variant) -> bool {
        match self {
            Self::New => variant >= Variant::V6,
            Self::Middle => (Variant::V3..=Variant::V6).contains(&variant),
            Self::Unknown => true,
        }
    }
}

const OF_THE_ALLOCATOR: [Variant; 8] =
    [Variant::V1, Variant::V2, Variant::V2L, Variant::V3, Variant::V4, Variant::V5, Variant::V6, Variant::V7];

/// The variants that the text of CUDA's caching allocator fits, the likeliest first.
pub(super) fn candidates(fields: &Fields, class: ClassAge) -> Vec<Variant> {
    let by_text: Vec<_> = OF_THE_ALLOCATOR.into_iter().filter(|variant| fits(fields, *variant)).collect();
    // A wrapper may have raised the text again under a class of its own.
    let by_both: Vec<_> = by_text.iter().copied().filter(|variant| class.allows(*variant)).collect();
    let mut found = if by_both.is_empty() { by_text } else { by_both };
    if lacks_its_tip(fields) && class == ClassAge::New {
        found.sort_by_key(|variant| *variant != Variant::V7);
    }
    found
}

/// The message is whole, but for the tip that newer versions leave out when expandable segments are on.
pub(super) fn lacks_its_tip(fields: &Fields) -> bool {
    fields.form == Some(Form::Sentences) && fields.is_closed && fields.tip == Tip::None
}

fn fits(fields: &Fields, variant: Variant) -> bool {
    use Variant::{V1, V2, V2L, V3, V4, V5, V6, V7};
    let by_form = match fields.form {
        Some(Form::Brackets) => matches!(variant, V1 | V2 | V2L | V3),
        Some(Form::Sentences) => matches!(variant, V4 | V5 | V6 | V7),
        _ => true,
    };
    let by_spelling = match fields.is_misspelt {
        Some(is_misspelt) => is_misspelt == (variant == V4),
        None => true,
    };
    let says_limit = fields.size(Figure::Allowed).is_some() || fields.no_answer.contains(&Figure::Allowed);
    let by_limit = !says_limit || matches!(variant, V2L | V3 | V6 | V7);
    let by_pools = fields.size(Figure::Private).is_none() || matches!(variant, V6 | V7);
    let reserved = fields.size(Figure::Reserved).is_some();
    let by_cache = match (fields.says_cached, reserved) {
        (true, _) => variant == V1,
        (false, true) => variant != V1 && (says_limit || variant != V2L),
        (false, false) => true,
    };
    let by_tip = match fields.tip {
        Tip::None | Tip::EmptyCache => true,
        Tip::Unnamed => matches!(variant, V3 | V4 | V5 | V6 | V7),
        Tip::MaxSplit => matches!(variant, V3 | V4),
        Tip::CudaConf => matches!(variant, V5 | V6),
        Tip::HipConf => matches!(variant, V5 | V6 | V7),
        Tip::AllocConf => variant == V7,
    };
    let by_link = !fields.newer_link || matches!(variant, V6 | V7);
    by_form && by_spelling && by_limit && by_pools && by_cache && by_tip && by_link
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(fields: &Fields, class: Option<&str>) -> Vec<&'static str> {
        candidates(fields, ClassAge::of(class)).into_iter().map(Variant::name).collect()
    }

    fn sentences() -> Fields {
        Fields { form: Some(Form::Sentences), ..Fields::default() }
    }

    #[test]
    fn a_text_cut_off_early_fits_many() {
        assert_eq!(named(&Fields::default(), None).len(), 8);
        assert_eq!(named(&Fields::default(), Some("torch.OutOfMemoryError")), ["V6", "V7"]);
        assert_eq!(named(&sentences(), Some("torch.cuda.OutOfMemoryError")), ["V4", "V5", "V6"]);
    }

    #[test]
    fn spelling_and_tip_decide() {
        let misspelt = Fields { is_misspelt: Some(true), ..sentences() };
        assert_eq!(named(&misspelt, None), ["V4"]);
        let spelt = Fields { is_misspelt: Some(false), ..sentences() };
        assert_eq!(named(&spelt, None), ["V5", "V6", "V7"]);
        assert_eq!(named(&Fields { tip: Tip::CudaConf, ..spelt.clone() }, None), ["V5", "V6"]);
        assert_eq!(named(&Fields { tip: Tip::CudaConf, newer_link: true, ..spelt.clone() }, None), ["V6"]);
        assert_eq!(named(&Fields { tip: Tip::AllocConf, ..spelt }, Some("torch.OutOfMemoryError")), ["V7"]);
    }

    #[test]
    fn a_class_that_contradicts_the_text_is_a_wrapper() {
        let brackets = Fields { form: Some(Form::Brackets), says_cached: true, ..Fields::default() };
        assert_eq!(named(&brackets, Some("torch.OutOfMemoryError")), ["V1"]);
    }

    #[test]
    fn a_missing_tip_speaks_for_the_newest() {
        let whole = Fields { is_closed: true, ..sentences() };
        assert_eq!(named(&whole, Some("torch.OutOfMemoryError")), ["V7", "V6"]);
        assert_eq!(named(&whole, None), ["V4", "V5", "V6", "V7"]);
    }
}
