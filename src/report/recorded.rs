//! The part of the report that only memlab's own recorder can fill: modules, names, holders, readings.
//!
//! Owns shapes and names, like `types`. All of it is absent from the report of a snapshot.

use serde::{Deserialize, Serialize};

/// The table of modules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModulesRow {
    /// Most bytes held at the peak first.
    pub rows: Vec<ModuleRow>,
    /// Allocations without a module's name. With all `rows` this adds up to the peak of allocated bytes.
    pub unnamed: PhaseRow,
    /// Bytes of all allocations of backward passes.
    pub backward_bytes: u64,
    /// The part of them that carries a module's name.
    pub backward_named_bytes: u64,
}

/// One module.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModuleRow {
    /// Qualified name.
    pub module: String,
    /// The line that allocates most in the module's forward pass.
    pub forward_line: Option<PlaceRow>,
    /// All phases together.
    #[serde(flatten)]
    pub total: PhaseRow,
    /// Allocated in the forward pass.
    pub forward: PhaseRow,
    /// Allocated in the backward pass.
    pub backward: PhaseRow,
    /// Allocated in the optimizer's step.
    pub optimizer: PhaseRow,
}

/// A source position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRow {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
}

/// Figures of a module in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// Bytes live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// Bytes of all allocations.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
}

/// What the censuses say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CensusRow {
    /// How many there were.
    pub count: u64,
    /// Named tensors at whose address nothing was live at that moment.
    pub unmatched_tensors: u64,
    /// Their bytes.
    pub unmatched_bytes: u64,
    /// Live bytes by kind.
    pub categories: CategoriesRow,
    /// The largest named allocations.
    pub tensors: Vec<TensorRow>,
    /// Named allocations that `tensors` leaves out.
    pub tensors_left_out: u64,
    /// Who holds the largest allocations.
    pub holders: Vec<HolderRow>,
    /// Holders that `holders` leaves out.
    pub holders_left_out: u64,
}

/// Live bytes by kind at the moments of interest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CategoriesRow {
    /// When allocated bytes peak.
    pub at_peak: Vec<CategoryRow>,
    /// At the (last) OOM.
    pub at_oom: Option<Vec<CategoryRow>>,
    /// After the last event.
    pub at_end: Vec<CategoryRow>,
}

/// Live allocations of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CategoryRow {
    /// `parameter`, `gradient`, ...; `unknown` for what no census names.
    pub kind: String,
    /// How many.
    pub allocations: u64,
    /// Bytes of the storages; requested bytes where the kind is not known.
    pub bytes: u64,
    /// Bytes of their blocks: these add up to allocated bytes.
    pub block_bytes: u64,
}

/// A named allocation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TensorRow {
    /// Qualified name; empty when it has none.
    pub name: String,
    /// See [`CategoryRow::kind`].
    pub kind: String,
    /// Bytes of the storage.
    pub bytes: u64,
    /// Bytes of its block.
    pub block_bytes: u64,
    /// For example `torch.bfloat16`.
    pub dtype: String,
    /// Elements per dimension.
    pub shape: Vec<u64>,
    /// The operation that made it; empty when there is none.
    pub grad_fn: String,
    /// Whether it is live when allocated bytes peak.
    pub live_at_peak: bool,
    /// Whether it is live after the last event.
    pub live_at_end: bool,
    /// Who allocated it, as grouped; `null` when not known.
    pub line: Option<String>,
}

/// Someone who keeps an allocation alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HolderRow {
    /// The chain of references.
    pub path: String,
    /// Bytes of the block; `null` when nothing was live at that address.
    pub bytes: Option<u64>,
    /// Address of the storage.
    pub address: u64,
    /// Who allocated it, as grouped; `null` when not known.
    pub line: Option<String>,
    /// Kind of the tensor, where a census names it.
    pub kind: Option<String>,
    /// Its name, where a census names it.
    pub name: Option<String>,
}

/// What lies outside the allocator: device memory that is neither free nor reserved by it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OutsideRow {
    /// Samples of driver and allocator.
    pub samples: u64,
    /// The most that ever lay outside.
    pub max_bytes: u64,
    /// The event after which that was; `null` when it cannot be told or was before the first.
    pub max_event: Option<u64>,
    /// At the last sample.
    pub end_bytes: u64,
    /// Bytes of the device, at the last sample.
    pub total_bytes: u64,
    /// What the driver had left, at the last sample.
    pub free_bytes: u64,
    /// What the allocator held, at the last sample.
    pub reserved_bytes: u64,
    /// Over time: every sample, or of many the highest of each stretch.
    pub series: Vec<OutsidePointRow>,
}

/// One point of the series.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct OutsidePointRow {
    /// The event before it, when that is known.
    pub event: Option<u64>,
    /// Unix microseconds.
    pub time_us: i64,
    /// Bytes outside the allocator.
    pub bytes: u64,
}

/// The rebuilt counters against those that PyTorch stated while it ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SelfCheckRow {
    /// Samples compared.
    pub samples: u64,
    /// Those in which every counter is equal to the byte.
    pub equal: u64,
    /// Allocations that PyTorch counted and the recording does not have.
    pub missing_allocations: u64,
    /// The first counter that differs.
    pub first_difference: Option<DifferenceRow>,
}

/// A counter that differs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DifferenceRow {
    /// The event after which it was compared; `null` before the first.
    pub event: Option<u64>,
    /// Name in `memory_stats()`.
    pub counter: String,
    /// What PyTorch said.
    pub recorded: i64,
    /// What the events give.
    pub rebuilt: u64,
}

impl PlaceRow {
    /// How people read it: `train.py:100 step`.
    #[must_use]
    pub fn label(&self) -> String {
        let row = super::LineRow {
            file: self.file.clone(),
            line: self.line,
            function: self.function.clone(),
            ..super::LineRow::default()
        };
        row.label()
    }
}
