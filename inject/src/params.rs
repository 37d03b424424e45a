//! Which driver functions are recorded, and where their arguments lie.
//!
//! Owns CUPTI's callback ids (`cupti_driver_cbid.h`; they are only ever appended to) and the offsets of the fields
//! in the parameter structures of `generated_cuda_meta.h`. `gpu/layout.py` holds both against the headers.

use crate::call::{Call, NO_DEVICE, Seen};

/// A function of the driver: its callback id, its name there, and what it is.
pub(crate) struct Function {
    pub(crate) id: u32,
    /// For people and tests.
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    read: unsafe fn(Params) -> Seen,
}

impl Function {
    /// The function with this callback id.
    pub(crate) fn of(id: u32) -> Option<&'static Self> {
        FUNCTIONS.binary_search_by_key(&id, |function| function.id).ok().map(|at| &FUNCTIONS[at])
    }

    /// Reads the arguments; what the driver wrote only if the call `succeeded`.
    ///
    /// # Safety
    /// `params` is the parameter structure of a call of this function that has just returned.
    pub(crate) unsafe fn read(&self, params: *const u8, succeeded: bool) -> Seen {
        // SAFETY: the caller's promise; the reader belongs to this function.
        unsafe { (self.read)(Params { at: params, succeeded }) }
    }
}

/// A parameter structure. All reads are of fields that the function's structure has.
#[derive(Clone, Copy)]
struct Params {
    at: *const u8,
    succeeded: bool,
}

impl Params {
    unsafe fn word(self, offset: usize) -> u64 {
        // SAFETY: a field of eight bytes lies there.
        unsafe { self.at.add(offset).cast::<u64>().read_unaligned() }
    }

    unsafe fn int(self, offset: usize) -> u32 {
        // SAFETY: a field of four bytes lies there.
        unsafe { self.at.add(offset).cast::<u32>().read_unaligned() }
    }

    /// What the pointer in the field points to.
    unsafe fn behind(self, offset: usize) -> Option<Self> {
        // SAFETY: a pointer lies there.
        let at = unsafe { self.word(offset) } as *const u8;
        (!at.is_null()).then_some(Self { at, ..self })
    }

    /// The word that the driver wrote through the pointer in the field; 0 if the call failed.
    unsafe fn out(self, offset: usize) -> u64 {
        if !self.succeeded {
            return 0;
        }
        // SAFETY: the call succeeded, so its out-pointer was good.
        unsafe { self.behind(offset).map_or(0, |target| target.word(0)) }
    }
}

/// The stream handle that stands for the thread's own default stream (`CU_STREAM_PER_THREAD`).
const PER_THREAD: u64 = 2;

macro_rules! functions {
    ($($id:literal $name:ident $call:ident |$params:ident| $($field:ident: $value:expr),*;)*) => {
        /// All recorded functions, by id.
        pub(crate) static FUNCTIONS: &[Function] = &[$(Function {
            id: $id,
            name: stringify!($name),
            call: Call::$call,
            // SAFETY: the offsets are those of this function's structure.
            #[allow(unused_unsafe, clippy::needless_update)]
            read: |$params| unsafe { Seen { $($field: $value,)* ..Seen::default() } },
        }),*];
    };
}

functions! {
    10 cuCtxCreate ContextCreate |p| handle: p.out(0), flags: p.int(8).into(), device: Some(p.int(12));
    11 cuCtxDestroy ContextDestroy |p| handle: p.word(0);
    38 cuMemFreeHost HostFree |p| address: p.word(0);
    39 cuMemHostAlloc HostAlloc |p| address: p.out(0), bytes: p.word(8), flags: p.int(16).into();
    89 cuArrayDestroy ArrayDestroy |p| handle: p.word(0);
    235 cuCtxCreate_v2 ContextCreate |p| handle: p.out(0), flags: p.int(8).into(), device: Some(p.int(12));
    243 cuMemAlloc_v2 DeviceAlloc |p| address: p.out(0), bytes: p.word(8);
    244 cuMemAllocPitch_v2 DeviceAlloc |p| address: p.out(0), bytes: pitched(p);
    245 cuMemFree_v2 DeviceFree |p| address: p.word(0);
    271 cuMemHostAlloc_v2 HostAlloc |p| address: p.out(0), bytes: p.word(8), flags: p.int(16).into();
    272 cuArrayCreate_v2 ArrayCreate |p| handle: p.out(0), bytes: array_bytes(p, false);
    274 cuArray3DCreate_v2 ArrayCreate |p| handle: p.out(0), bytes: array_bytes(p, true);
    294 cuMemAllocHost_v2 HostAlloc |p| address: p.out(0), bytes: p.word(8);
    301 cuMemHostRegister HostRegister |p| address: p.word(0), bytes: p.word(8), flags: p.int(16).into();
    302 cuMemHostUnregister HostUnregister |p| address: p.word(0);
    322 cuCtxDestroy_v2 ContextDestroy |p| handle: p.word(0);
    329 cuIpcOpenMemHandle IpcOpen |p| address: p.out(0), flags: p.int(72).into();
    330 cuIpcCloseMemHandle IpcClose |p| address: p.word(0);
    347 cuMipmappedArrayCreate ArrayCreate |p| handle: p.out(0), bytes: array_bytes(p, true);
    349 cuMipmappedArrayDestroy ArrayDestroy |p| handle: p.word(0);
    371 cuMemAllocManaged ManagedAlloc |p| address: p.out(0), bytes: p.word(8), flags: p.int(16).into();
    379 cuMemHostRegister_v2 HostRegister |p| address: p.word(0), bytes: p.word(8), flags: p.int(16).into();
    386 cuDevicePrimaryCtxRetain ContextRetain |p| handle: p.out(0), device: Some(p.int(8));
    387 cuDevicePrimaryCtxRelease ContextRelease |p| device: Some(p.int(0));
    389 cuDevicePrimaryCtxReset ContextReset |p| device: Some(p.int(0));
    544 cuDevicePrimaryCtxRelease_v2 ContextRelease |p| device: Some(p.int(0));
    545 cuDevicePrimaryCtxReset_v2 ContextReset |p| device: Some(p.int(0));
    547 cuMemAddressReserve AddressReserve |p| address: p.out(0), bytes: p.word(8), flags: p.word(32);
    548 cuMemAddressFree AddressFree |p| address: p.word(0), bytes: p.word(8);
    549 cuMemCreate Create |p| handle: p.out(0), bytes: p.word(8), device: Some(location(p, 16)), flags: p.word(24);
    550 cuMemRelease Release |p| handle: p.word(0);
    551 cuMemMap Map |p| address: p.word(0), bytes: p.word(8), offset: p.word(16), handle: p.word(24), flags: p.word(32);
    552 cuMemUnmap Unmap |p| address: p.word(0), bytes: p.word(8);
    555 cuMemImportFromShareableHandle Import |p| handle: p.out(0);
    565 cuMemRetainAllocationHandle Retain |p| handle: p.out(0), address: p.word(8);
    567 cuIpcOpenMemHandle_v2 IpcOpen |p| address: p.out(0), flags: p.int(72).into();
    598 cuMemAllocAsync PoolAlloc |p| address: p.out(0), bytes: p.word(8), stream: p.word(16);
    599 cuMemAllocAsync_ptsz PoolAlloc |p| address: p.out(0), bytes: p.word(8), stream: own_stream(p.word(16));
    600 cuMemFreeAsync PoolFree |p| address: p.word(0), stream: p.word(8);
    601 cuMemFreeAsync_ptsz PoolFree |p| address: p.word(0), stream: own_stream(p.word(8));
    602 cuMemPoolTrimTo PoolTrim |p| handle: p.word(0), bytes: p.word(8);
    607 cuMemPoolCreate PoolCreate |p| handle: p.out(0), device: Some(location(p, 8));
    608 cuMemPoolDestroy PoolDestroy |p| handle: p.word(0);
    611 cuMemAllocFromPoolAsync PoolAlloc |p| address: p.out(0), bytes: p.word(8), handle: p.word(16), stream: p.word(24);
    612 cuMemAllocFromPoolAsync_ptsz PoolAlloc |p| address: p.out(0), bytes: p.word(8), handle: p.word(16), stream: own_stream(p.word(24));
    645 cuCtxCreate_v3 ContextCreate |p| handle: p.out(0), flags: p.int(20).into(), device: Some(p.int(24));
    757 cuCtxCreate_v4 ContextCreate |p| handle: p.out(0), flags: p.int(16).into(), device: Some(p.int(20));
}

fn own_stream(stream: u64) -> u64 {
    if stream == 0 { PER_THREAD } else { stream }
}

/// Bytes of `cuMemAllocPitch`: with the pitch that the driver chose, or what was asked for.
unsafe fn pitched(params: Params) -> u64 {
    // SAFETY: fields of `cuMemAllocPitch_v2_params`.
    let (pitch, width, height) = unsafe { (params.out(8), params.word(16), params.word(24)) };
    pitch.max(width).saturating_mul(height)
}

/// The device of the location in the properties behind a pointer (`CUmemAllocationProp` and `CUmemPoolProps` begin
/// alike: two enumerations, then the location's type and id).
unsafe fn location(params: Params, offset: usize) -> u32 {
    const DEVICE: u32 = 1;
    // SAFETY: a pointer to properties, good for the call that has just returned.
    unsafe {
        match params.behind(offset) {
            Some(properties) if properties.int(8) == DEVICE => properties.int(12),
            _ => NO_DEVICE,
        }
    }
}

/// What an array's descriptor asks for; 0 for packed formats.
unsafe fn array_bytes(params: Params, has_depth: bool) -> u64 {
    // SAFETY: the second argument is the descriptor, good for the call that has just returned.
    unsafe {
        let Some(descriptor) = params.behind(8) else { return 0 };
        let depth = if has_depth { descriptor.word(16).max(1) } else { 1 };
        let rest = if has_depth { 24 } else { 16 };
        let element = element_bytes(descriptor.int(rest)) * u64::from(descriptor.int(rest + 4));
        [descriptor.word(0), descriptor.word(8).max(1), depth].into_iter().fold(element, u64::saturating_mul)
    }
}

/// Bytes of one channel in a `CUarray_format`.
fn element_bytes(format: u32) -> u64 {
    match format {
        0x01 | 0x08 | 0xc0..=0xc2 | 0xc6..=0xc8 => 1,
        0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_stand_in_order_of_their_ids() {
        assert!(FUNCTIONS.is_sorted_by(|one, two| one.id < two.id));
        assert_eq!(Function::of(243).map(|function| function.name), Some("cuMemAlloc_v2"));
        assert!(Function::of(1).is_none());
    }

    #[test]
    fn out_pointers_of_failed_calls_are_not_followed() {
        let params = [1u64, 4096];
        let function = Function::of(243).expect("known");
        // SAFETY: the structure of `cuMemAlloc_v2` is a pointer and a size.
        let seen = unsafe { function.read(params.as_ptr().cast(), false) };
        assert_eq!(seen, Seen { bytes: 4096, ..Seen::default() });
    }

    #[test]
    fn arrays_are_counted_from_their_descriptors() {
        // Width, height, depth, then format (float) and channels.
        let descriptor = [64u64, 32, 0, 0x20 | (4 << 32), 0];
        let params = [0u64, descriptor.as_ptr() as u64, 1];
        let read = |id| {
            let function = Function::of(id).expect("known");
            // SAFETY: both structures hold a pointer to a descriptor second.
            unsafe { function.read(params.as_ptr().cast(), false) }.bytes
        };
        assert_eq!(read(274), 64 * 32 * 4 * 4);
        assert_eq!(read(347), 64 * 32 * 4 * 4);
    }
}
