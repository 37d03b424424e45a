//! Kinds of memory.
//!
//! Owns what each kind counts as. Which call takes which is `takings`'.

/// What kind of memory was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// `cudaMalloc`.
    Device,
    /// Physical memory that is mapped by hand: expandable segments.
    Physical,
    /// Out of a pool: `cudaMallocAsync`. What the pool keeps besides is not known.
    Pool,
    /// Arrays: textures. The driver pads them.
    Array,
    /// Managed memory, which lies wherever it was used last.
    Managed,
    /// Another process's memory.
    Imported,
    /// Host memory that the driver allocated and pinned.
    Pinned,
    /// The program's own memory, pinned.
    Registered,
}

impl Memory {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Device,
        Self::Physical,
        Self::Pool,
        Self::Array,
        Self::Managed,
        Self::Imported,
        Self::Pinned,
        Self::Registered,
    ];

    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Physical => "physical",
            Self::Pool => "pool",
            Self::Array => "array",
            Self::Managed => "managed",
            Self::Imported => "imported",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
        }
    }

    /// Whether its bytes are taken from the device that the call names, for certain.
    #[must_use]
    pub fn is_of_the_device(self) -> bool {
        matches!(self, Self::Device | Self::Physical | Self::Pool | Self::Array)
    }

    /// Whether it is memory of the host.
    #[must_use]
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }

    /// Whether it goes with its context.
    pub(super) fn is_of_the_context(self) -> bool {
        matches!(self, Self::Device | Self::Array | Self::Managed | Self::Pinned | Self::Registered)
    }
}
