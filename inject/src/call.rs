//! One recorded call: its code and its row.
//!
//! Owns the codes of docs/trace-format.md, "Driver". Does not know how calls are seen.

/// What was called. The numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    DeviceAlloc = 1,
    /// `cuMemFree`.
    DeviceFree = 2,
    /// `cuMemAllocManaged`.
    ManagedAlloc = 3,
    /// `cuMemHostAlloc`, `cuMemAllocHost`.
    HostAlloc = 4,
    /// `cuMemFreeHost`.
    HostFree = 5,
    /// `cuMemHostRegister`.
    HostRegister = 6,
    /// `cuMemHostUnregister`.
    HostUnregister = 7,
    /// `cuMemAddressReserve`.
    AddressReserve = 8,
    /// `cuMemAddressFree`.
    AddressFree = 9,
    /// `cuMemCreate`.
    Create = 10,
    /// `cuMemRelease`.
    Release = 11,
    /// `cuMemMap`.
    Map = 12,
    /// `cuMemUnmap`.
    Unmap = 13,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    PoolAlloc = 14,
    /// `cuMemFreeAsync`.
    PoolFree = 15,
    /// `cuMemPoolCreate`.
    PoolCreate = 16,
    /// `cuMemPoolDestroy`.
    PoolDestroy = 17,
    /// `cuMemPoolTrimTo`.
    PoolTrim = 18,
    /// `cuArrayCreate`, `cuArray3DCreate`, `cuMipmappedArrayCreate`.
    ArrayCreate = 19,
    /// `cuArrayDestroy`, `cuMipmappedArrayDestroy`.
    ArrayDestroy = 20,
    /// `cuCtxCreate`.
    ContextCreate = 21,
    /// `cuCtxDestroy`.
    ContextDestroy = 22,
    /// `cuDevicePrimaryCtxRetain`.
    ContextRetain = 23,
    /// `cuDevicePrimaryCtxRelease`.
    ContextRelease = 24,
    /// `cuDevicePrimaryCtxReset`.
    ContextReset = 25,
    /// `cuMemRetainAllocationHandle`.
    Retain = 26,
    /// `cuMemImportFromShareableHandle`.
    Import = 27,
    /// `cuIpcOpenMemHandle`.
    IpcOpen = 28,
    /// `cuIpcCloseMemHandle`.
    IpcClose = 29,
}

impl Call {
    /// Whether the call gives something back: then it takes its place in the order before the driver is entered,
    /// since another thread may be handed the same address before this one has returned.
    pub fn gives(self) -> bool {
        matches!(
            self,
            Self::DeviceFree
                | Self::HostFree
                | Self::HostUnregister
                | Self::AddressFree
                | Self::Release
                | Self::Unmap
                | Self::PoolFree
                | Self::PoolDestroy
                | Self::PoolTrim
                | Self::ArrayDestroy
                | Self::ContextDestroy
                | Self::ContextRelease
                | Self::ContextReset
                | Self::IpcClose
        )
    }

    /// Whether a context may be gone after it, so that what is known of contexts must be asked anew.
    pub(crate) fn ends_contexts(self) -> bool {
        matches!(self, Self::ContextDestroy | Self::ContextRelease | Self::ContextReset)
    }
}

/// Added to a call's code where it is the runtime's, interposed.
pub(crate) const RUNTIME: u8 = 64;

/// The value of `device` that says: none, or not known.
pub const NO_DEVICE: u32 = u32::MAX;

/// What a call's arguments say. Units and meanings are those of the columns in docs/trace-format.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Device that the arguments name; `None`: that of the current context.
    pub device: Option<u32>,
    /// Raw value of the stream.
    pub stream: u64,
    /// Device or host address.
    pub address: u64,
    /// Size as asked for.
    pub bytes: u64,
    /// Physical memory, pool, array or context.
    pub handle: u64,
    /// Offset of a mapping in its physical memory.
    pub offset: u64,
    /// Flags as they are.
    pub flags: u64,
}

/// One row of the file, but for its stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) code: u8,
    pub(crate) order: u64,
    pub(crate) time_us: i64,
    pub(crate) result: u32,
    pub(crate) device: u32,
    pub(crate) context: u64,
    pub(crate) thread: u32,
    pub(crate) depth: u32,
    pub(crate) native: u32,
    pub(crate) python: u32,
    pub(crate) seen: Seen,
}
