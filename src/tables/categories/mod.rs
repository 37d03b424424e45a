//! Categories: what every allocation is for.
//!
//! Owns the list of categories, who has the last word (the recorder's censuses), and sums at any moment. How
//! a category is derived from phases and lives belongs to `derive` and `settle`, which of two sizes belong
//! together to `sizes`, and the rows of the report to `figures`.

mod derive;
mod figures;
mod runs;
mod settle;
mod sizes;

#[cfg(test)]
mod tests;

use crate::model::{DeviceTrace, Trace};
use crate::rebuild::{History, Moment};

use super::{Names, Phases};

pub use figures::{CategoryFigures, category_figures};

/// How categories are derived, printed where they are shown.
pub const CATEGORY_RULE: &str = "Derived from the phase in which a block was handed out and the one in which it \
    was given back: kept from a forward pass for its backward pass is an activation, kept from a backward pass \
    a gradient, kept from an optimizer's step its state; what a module puts in place, or what has the size of a \
    gradient and stays, is a parameter; what one pass takes and gives back is temporary. What none of this \
    tells is unknown, not guessed";

/// What is added to [`CATEGORY_RULE`] where a census names tensors.
pub const NAMED_RULE: &str = "Where a census of the recorder names a tensor, its word stands";

/// What an allocation is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Category {
    /// Weights, and the module's buffers where nothing tells them apart.
    Parameter = 0,
    /// A module's tensors that are no weights. Only a census tells.
    Buffer = 1,
    /// Gradients of parameters.
    Gradient = 2,
    /// What an optimizer keeps from step to step.
    OptimizerState = 3,
    /// Made by a forward pass and kept beyond it, for the backward pass or because something refers to it.
    Activation = 4,
    /// Put on the device before a forward pass and there for it: a batch, its labels.
    Input = 5,
    /// Taken and given back within one pass.
    Temporary = 6,
    /// What a library keeps for its own work: cuBLAS, cuBLASLt, cuDNN.
    Workspace = 7,
    /// Nothing tells.
    #[default]
    Unknown = 8,
}

impl Category {
    /// Every category in order.
    pub const ALL: [Self; 9] = [
        Self::Parameter,
        Self::Buffer,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::Input,
        Self::Temporary,
        Self::Workspace,
        Self::Unknown,
    ];

    /// Its name in JSON, and in a census.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer_state",
            Self::Activation => "activation",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Workspace => "workspace",
            Self::Unknown => "unknown",
        }
    }

    /// What a census calls `kind`; `None` for words that say nothing (`other`) or that are not known.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| *category != Self::Unknown && category.name() == kind)
    }
}

/// Stands beside a category's number where a census says it.
const NAMED: u8 = 1 << 7;

/// The category of every allocation of one device: one byte each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    /// By row in the history: the category's number, and [`NAMED`].
    codes: Vec<u8>,
    /// Whether a census names any of them.
    named: bool,
}

/// Live bytes of one category at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CategorySum {
    /// Bytes of blocks.
    pub bytes: u64,
    /// The part of them that a census names.
    pub named_bytes: u64,
    /// How many allocations.
    pub allocations: u64,
}

/// Live bytes of all categories at one moment: together they are the allocated bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CategorySums([CategorySum; Category::ALL.len()]);

impl CategorySums {
    /// Of one category.
    #[must_use]
    pub fn of(&self, category: Category) -> CategorySum {
        self.0[category as usize]
    }

    /// Of all, in the order of [`Category::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Category, CategorySum)> + '_ {
        Category::ALL.into_iter().zip(self.0)
    }

    /// Bytes of all categories.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, row| sum.saturating_add(row.bytes))
    }
}

/// The categories of the allocations of `device`, from `phases` and, where there are any, the words of its
/// censuses.
#[must_use]
pub fn categories(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    phases: &Phases,
    names: Option<&Names>,
) -> Categories {
    let mut derived = derive::derive(history, phases);
    settle::settle(&mut derived, device, history, phases);
    let mut codes: Vec<u8> = derived.codes;
    let mut named = false;
    for row in names.iter().flat_map(|names| &names.tensors) {
        let kind = trace.tensors.get(row.tensor).and_then(|tensor| Category::from_kind(&tensor.kind));
        if let (Some(category), Some(code)) = (kind, codes.get_mut(row.allocation)) {
            *code = category as u8 | NAMED;
            named = true;
        }
    }
    Categories { codes, named }
}

impl Categories {
    /// The category of allocation `row`.
    #[inline]
    #[must_use]
    pub fn of(&self, row: usize) -> Category {
        let number = self.codes.get(row).map_or(Category::Unknown as u8, |code| code & !NAMED);
        Category::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// Whether a census says so.
    #[must_use]
    pub fn is_named(&self, row: usize) -> bool {
        self.codes.get(row).is_some_and(|code| code & NAMED != 0)
    }

    /// Whether a census names any allocation: `named`, else `derived`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        if self.named { "named" } else { "derived" }
    }

    /// The rules by which they were found, as far as they were used.
    #[must_use]
    pub fn rule(&self) -> String {
        if self.named { format!("{NAMED_RULE}. {CATEGORY_RULE}.") } else { format!("{CATEGORY_RULE}.") }
    }

    /// What is allocated at `moment`, by category. A scan of all allocations.
    #[must_use]
    pub fn at(&self, history: &History, moment: Moment) -> CategorySums {
        let rows = &history.allocations;
        let mut sums = CategorySums::default();
        for row in (0..rows.len()).filter(|&row| rows.is_allocated_at(row, moment)) {
            let bytes = rows.block_bytes[row];
            let sum = &mut sums.0[self.of(row) as usize];
            sum.allocations += 1;
            sum.bytes = sum.bytes.saturating_add(bytes);
            if self.is_named(row) {
                sum.named_bytes = sum.named_bytes.saturating_add(bytes);
            }
        }
        sums
    }
}
