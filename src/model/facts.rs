//! What a trace says beyond events: the process, its steps and phases, named tensors and their holders.
//! Snapshots carry nearly none of it; the emitter does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DeviceId;

/// Facts of the recorded process. Everything may be unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// Global rank in a distributed job.
    pub rank: Option<u64>,
    /// Rank on its host.
    pub local_rank: Option<u64>,
    /// Number of ranks.
    pub world_size: Option<u64>,
    /// Process id.
    pub pid: Option<u64>,
    /// Version of PyTorch.
    pub torch_version: Option<String>,
    /// Version of CUDA that PyTorch was built for.
    pub cuda_version: Option<String>,
    /// Version of Python.
    pub python_version: Option<String>,
    /// What wrote the recording, for example `memlab 0.1.0`.
    pub writer: Option<String>,
    /// Devices that the process could see.
    pub devices: Vec<DeviceFacts>,
    /// Events that the recorder knows to have lost.
    pub lost_events: u64,
    /// Any further facts, kept as they came.
    pub other: BTreeMap<String, serde_json::Value>,
}

/// A GPU as the process saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Index.
    pub device: DeviceId,
    /// Product name.
    pub name: String,
    /// Memory of the device, in bytes.
    pub total_bytes: Option<u64>,
}

/// What a [`Mark`] marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MarkKind {
    /// A training step begins.
    Step = 0,
    /// A phase (forward, backward, optimizer) begins or ends.
    Phase = 1,
    /// A module begins or ends.
    Module = 2,
    /// Something that the user named.
    User = 3,
    /// A fault of the recorder itself, or a gap in what it recorded.
    Fault = 4,
}

/// A moment or span that the emitter noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What it marks.
    pub kind: MarkKind,
    /// Name, for example `forward` or `blocks.3.mlp`; for a step its number.
    pub name: String,
    /// Unix microseconds.
    pub time_us: i64,
    /// Whether a span begins here; `None` for a moment.
    pub begins: Option<bool>,
}

/// A storage whose name is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTensor {
    /// Device.
    pub device: DeviceId,
    /// Address of the storage: the address of its block.
    pub address: u64,
    /// Bytes of the storage.
    pub bytes: u64,
    /// `parameter`, `gradient`, `buffer`, `optimizer_state`, `activation`, `input`, `temporary`, `workspace`,
    /// `other`; whatever the file says.
    pub kind: String,
    /// For example `blocks.3.mlp.up.weight`.
    pub name: String,
    /// For example `torch.bfloat16`.
    pub dtype: String,
    /// Elements per dimension.
    pub shape: Vec<u64>,
    /// Name of the operation that made it, for example `MulBackward0`; empty when there is none.
    pub grad_fn: String,
    /// Unix microseconds of the census that found it.
    pub time_us: i64,
    /// Events of the device before the census, if the recorder says.
    pub events: Option<u64>,
}

/// Who keeps a storage alive, as found by the emitter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Device.
    pub device: DeviceId,
    /// Address of the storage.
    pub address: u64,
    /// For example `train.CACHE.data[3]`.
    pub path: String,
    /// Unix microseconds of the census that found it.
    pub time_us: i64,
    /// Events of the device before the census, if the recorder says.
    pub events: Option<u64>,
}

/// What driver and allocator said at one moment of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Device.
    pub device: DeviceId,
    /// Unix microseconds.
    pub time_us: i64,
    /// Events of the device recorded before this moment, if the recorder says.
    pub events: Option<u64>,
    /// Bytes that the driver has left on the device.
    pub free_bytes: Option<u64>,
    /// Bytes of the device.
    pub total_bytes: Option<u64>,
    /// Bytes that the recorded process holds on the device, as the driver counts them.
    pub process_bytes: Option<u64>,
    /// Highest order that a driver call had taken when this was answered: calls up to it came before.
    pub driver_calls: Option<u64>,
    /// Driver calls were made while this was asked: the figures may have those around `driver_calls` or not.
    pub unstable: bool,
    /// Counters of `torch.cuda.memory_stats()`, by their flat names: all of them or some.
    pub stats: BTreeMap<Arc<str>, i64>,
}

impl Sample {
    /// A counter that counts bytes or things; `None` when it is missing or negative.
    #[must_use]
    pub fn stat(&self, name: &str) -> Option<u64> {
        self.stats.get(name).and_then(|&value| u64::try_from(value).ok())
    }
}
