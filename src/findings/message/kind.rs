//! Kinds of messages and of devices.
//!
//! Owns their names only.

/// What kind of message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The caching allocator's message.
    Allocator,
    /// That of the cudaMallocAsync backend.
    Async,
    /// `cuda runtime error (2)`.
    Oldest,
    /// A call to the driver, outside the allocator.
    Driver,
    /// A library that asks the driver itself; its name.
    Library(&'static str),
    /// An assertion inside the allocator.
    Assertion,
    /// The query of the driver's management library that the message needs failed.
    Query,
}

/// The kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// NVIDIA's.
    Cuda,
    /// AMD's.
    Hip,
    /// Intel's.
    Xpu,
    /// Any other that shares the text.
    Other,
}

impl Platform {
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        match word {
            b"CUDA" => Some(Self::Cuda),
            b"HIP" => Some(Self::Hip),
            b"XPU" => Some(Self::Xpu),
            b"NPU" | b"MTIA" | b"MUSA" | b"GCU" | b"MLU" => Some(Self::Other),
            _ => None,
        }
    }

    /// Its name in the JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Xpu => "xpu",
            Self::Other => "other",
        }
    }
}
