//! The recorder of `memlab-inject` with interposed functions of libcudart and libcuda, for machines without a CUPTI
//! that works.
//!
//! Owns the functions that stand in front of CUDA's by `LD_PRELOAD`, and finding the true ones. Each calls the true one
//! with the same arguments and gives its result; what is recorded is decided in `memlab-inject`, and is nothing while
//! CUPTI sees the calls. What other libraries of CUDA call directly does not come through here.

// As `memlab-inject`.
#![cfg(target_os = "linux")]
// The names are CUDA's.
#![allow(non_snake_case)]

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use memlab_inject::{Call, Interposed, NO_DEVICE, Seen};

/// `CUDA_ERROR_UNKNOWN`, `cudaErrorUnknown`: the answer of a function that is nowhere in the process.
const UNKNOWN: c_int = 999;

macro_rules! interpose {
    ($($library:literal $is_runtime:literal $name:ident $call:ident
        ($($argument:ident: $type:ty),*) |$good:ident| $($field:ident: $value:expr),*;)*) => {$(
        #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the true one.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static TRUE: AtomicUsize = AtomicUsize::new(0);
            const NAME: &CStr = unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) };
            let found = find(&TRUE, NAME, $library, $name as *const () as usize);
            if found == 0 {
                return UNKNOWN;
            }
            let here = 0u8;
            let call = Interposed::enter(Call::$call, &raw const here as usize);
            // SAFETY: the symbol of this name has this type, by CUDA's headers.
            let result = unsafe { transmute::<usize, unsafe extern "C" fn($($type),*) -> c_int>(found)($($argument),*) };
            let $good = result == 0;
            // SAFETY: out-pointers are read after success alone.
            #[allow(unused_unsafe)]
            let seen = unsafe { Seen { $($field: $value,)* ..Seen::default() } };
            call.leave(result, $is_runtime, seen);
            result
        }
    )*};
}

type Out = *mut u64;

interpose! {
    "libcudart.so" true cudaMalloc DeviceAlloc (out: Out, bytes: usize)
        |good| address: written(out, good), bytes: bytes as u64;
    "libcudart.so" true cudaMallocPitch DeviceAlloc (out: Out, pitch: Out, width: usize, height: usize)
        |good| address: written(out, good), bytes: pitched(written(pitch, good), width, height);
    "libcudart.so" true cudaFree DeviceFree (address: u64)
        |_good| address: address;
    "libcudart.so" true cudaMallocManaged ManagedAlloc (out: Out, bytes: usize, flags: c_uint)
        |good| address: written(out, good), bytes: bytes as u64, flags: flags.into();
    "libcudart.so" true cudaMallocHost HostAlloc (out: Out, bytes: usize)
        |good| address: written(out, good), bytes: bytes as u64;
    "libcudart.so" true cudaHostAlloc HostAlloc (out: Out, bytes: usize, flags: c_uint)
        |good| address: written(out, good), bytes: bytes as u64, flags: flags.into();
    "libcudart.so" true cudaFreeHost HostFree (address: u64)
        |_good| address: address;
    "libcudart.so" true cudaHostRegister HostRegister (address: u64, bytes: usize, flags: c_uint)
        |_good| address: address, bytes: bytes as u64, flags: flags.into();
    "libcudart.so" true cudaHostUnregister HostUnregister (address: u64)
        |_good| address: address;
    "libcudart.so" true cudaMallocAsync PoolAlloc (out: Out, bytes: usize, stream: u64)
        |good| address: written(out, good), bytes: bytes as u64, stream: stream;
    "libcudart.so" true cudaMallocFromPoolAsync PoolAlloc (out: Out, bytes: usize, pool: u64, stream: u64)
        |good| address: written(out, good), bytes: bytes as u64, handle: pool, stream: stream;
    "libcudart.so" true cudaFreeAsync PoolFree (address: u64, stream: u64)
        |_good| address: address, stream: stream;
    "libcuda.so" false cuMemAlloc_v2 DeviceAlloc (out: Out, bytes: usize)
        |good| address: written(out, good), bytes: bytes as u64;
    "libcuda.so" false cuMemAllocPitch_v2 DeviceAlloc (out: Out, pitch: Out, width: usize, height: usize, element: c_uint)
        |good| address: written(out, good), bytes: pitched(written(pitch, good), width, height);
    "libcuda.so" false cuMemFree_v2 DeviceFree (address: u64)
        |_good| address: address;
    "libcuda.so" false cuMemAllocManaged ManagedAlloc (out: Out, bytes: usize, flags: c_uint)
        |good| address: written(out, good), bytes: bytes as u64, flags: flags.into();
    "libcuda.so" false cuMemAllocHost_v2 HostAlloc (out: Out, bytes: usize)
        |good| address: written(out, good), bytes: bytes as u64;
    "libcuda.so" false cuMemHostAlloc HostAlloc (out: Out, bytes: usize, flags: c_uint)
        |good| address: written(out, good), bytes: bytes as u64, flags: flags.into();
    "libcuda.so" false cuMemFreeHost HostFree (address: u64)
        |_good| address: address;
    "libcuda.so" false cuMemHostRegister_v2 HostRegister (address: u64, bytes: usize, flags: c_uint)
        |_good| address: address, bytes: bytes as u64, flags: flags.into();
    "libcuda.so" false cuMemHostUnregister HostUnregister (address: u64)
        |_good| address: address;
    "libcuda.so" false cuMemAddressReserve AddressReserve (out: Out, bytes: usize, alignment: usize, wanted: u64, flags: u64)
        |good| address: written(out, good), bytes: bytes as u64, flags: flags;
    "libcuda.so" false cuMemAddressFree AddressFree (address: u64, bytes: usize)
        |_good| address: address, bytes: bytes as u64;
    "libcuda.so" false cuMemCreate Create (out: Out, bytes: usize, properties: *const u32, flags: u64)
        |good| handle: written(out, good), bytes: bytes as u64, device: Some(location(properties)), flags: flags;
    "libcuda.so" false cuMemRelease Release (handle: u64)
        |_good| handle: handle;
    "libcuda.so" false cuMemMap Map (address: u64, bytes: usize, offset: usize, handle: u64, flags: u64)
        |_good| address: address, bytes: bytes as u64, offset: offset as u64, handle: handle, flags: flags;
    "libcuda.so" false cuMemUnmap Unmap (address: u64, bytes: usize)
        |_good| address: address, bytes: bytes as u64;
    "libcuda.so" false cuMemAllocAsync PoolAlloc (out: Out, bytes: usize, stream: u64)
        |good| address: written(out, good), bytes: bytes as u64, stream: stream;
    "libcuda.so" false cuMemAllocFromPoolAsync PoolAlloc (out: Out, bytes: usize, pool: u64, stream: u64)
        |good| address: written(out, good), bytes: bytes as u64, handle: pool, stream: stream;
    "libcuda.so" false cuMemFreeAsync PoolFree (address: u64, stream: u64)
        |_good| address: address, stream: stream;
}

/// What a successful call wrote.
unsafe fn written(out: Out, good: bool) -> u64 {
    // SAFETY: the call succeeded, so its out-pointer was good.
    if good && !out.is_null() { unsafe { out.read_unaligned() } } else { 0 }
}

fn pitched(pitch: u64, width: usize, height: usize) -> u64 {
    pitch.max(width as u64).saturating_mul(height as u64)
}

/// The device in `CUmemAllocationProp`: type and id of the location are its third and fourth words.
unsafe fn location(properties: *const u32) -> u32 {
    // SAFETY: the caller of `cuMemCreate` handed over properties.
    unsafe { if properties.is_null() || *properties.add(2) != 1 { NO_DEVICE } else { *properties.add(3) } }
}

/// Address of the true function of this name, 0 if there is none: behind this library in the order of the linker, or
/// in a loaded `library` that is not part of that order (Python opens its extensions so).
fn find(known: &AtomicUsize, name: &CStr, library: &str, own: usize) -> usize {
    let before = known.load(Ordering::Relaxed);
    if before != 0 {
        return before;
    }
    // SAFETY: a terminated name.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    let found = if next == 0 || next == own { find_loaded(name, library, own) } else { next };
    known.store(found, Ordering::Relaxed);
    found
}

fn find_loaded(name: &CStr, library: &str, own: usize) -> usize {
    let paths = memlab_inject::loaded_libraries(library).into_iter();
    let symbols = paths.filter_map(|path| {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: terminated texts; nothing new is loaded.
        unsafe {
            let open = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            let found = if open.is_null() { 0 } else { libc::dlsym(open, name.as_ptr()) as usize };
            (found != 0 && found != own).then_some(found)
        }
    });
    symbols.take(1).next().unwrap_or(0)
}

/// Tells the recorder, as soon as this library is loaded, whether its functions stand in front of CUDA's. They do not
/// where it was loaded by `CUDA_INJECTION64_PATH` alone.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    // SAFETY: a terminated name.
    let first: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cuMemAlloc_v2".as_ptr()) };
    if std::ptr::eq(first, cuMemAlloc_v2 as *const c_void) {
        memlab_inject::interpose();
    }
}
