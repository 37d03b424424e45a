//! What the driver says of its memory, through NVML.
//!
//! Owns the part of NVML's interface that is used (`nvml.h`), opened at run time, and which of NVML's devices is which
//! of CUDA's. To be used on a thread of the recorder's own, without a lock: all of this may wait for the driver.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::ptr::null_mut;

/// `NVML_ERROR_INSUFFICIENT_SIZE`.
const MORE: c_int = 7;
/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;
/// Devices that are asked at the start, at most.
const MOST_DEVICES: c_uint = 64;
/// Processes of a device that are looked through, at most.
const MOST_PROCESSES: c_uint = 1 << 14;

/// `nvmlMemory_t`. What the driver keeps for itself on the device counts as used.
#[repr(C)]
#[derive(Default)]
struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`. What the driver keeps for itself stands apart, as in `nvidia-smi`.
#[repr(C)]
#[derive(Default)]
struct MemoryInfo2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2`: the record's length and the number of its version.
const MEMORY_2: c_uint = size_of::<MemoryInfo2>() as c_uint | 2 << 24;

/// `nvmlProcessInfo_t` of the functions' second and third version.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    used: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

type Device = *mut c_void;
type ByName = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;

/// See the module's text.
pub(crate) struct Nvml {
    by_uuid: ByName,
    by_bus: ByName,
    memory: unsafe extern "C" fn(Device, *mut MemoryInfo) -> c_int,
    /// Since the driver's release 510.
    memory_2: Option<unsafe extern "C" fn(Device, *mut MemoryInfo2) -> c_int>,
    processes: Option<unsafe extern "C" fn(Device, *mut c_uint, *mut ProcessInfo) -> c_int>,
    initialize: unsafe extern "C" fn() -> c_int,
    count: Option<unsafe extern "C" fn(*mut c_uint) -> c_int>,
    by_index: Option<unsafe extern "C" fn(c_uint, *mut Device) -> c_int>,
    /// By CUDA's index; `None` where NVML does not know the device.
    devices: Vec<(u32, Option<Device>)>,
}

// SAFETY: NVML's functions and what it calls devices are for all threads.
unsafe impl Send for Nvml {}

/// Figures of one device, in bytes: `total` − `free` is what `nvidia-smi` shows as used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) free: u64,
    /// Without what the driver keeps for itself, where it says how much that is.
    pub(crate) total: u64,
    /// What the process holds, if the driver says.
    pub(crate) process: Option<u64>,
}

impl Nvml {
    /// Loads the library, and asks nothing of it.
    ///
    /// # Errors
    /// A sentence fragment that says why there is none.
    pub(crate) fn load() -> Result<Self, String> {
        let library = open(c"libnvidia-ml.so.1", 0).ok_or("there is no libnvidia-ml.so.1")?;
        let missing = |name: &CStr| format!("libnvidia-ml.so.1 has no {}", name.to_string_lossy());
        // SAFETY: an open library; each function is given the type of `nvml.h`.
        unsafe {
            Ok(Self {
                by_uuid: symbol(library, &[c"nvmlDeviceGetHandleByUUID"])
                    .ok_or_else(|| missing(c"nvmlDeviceGetHandleByUUID"))?,
                by_bus: symbol(library, &[c"nvmlDeviceGetHandleByPciBusId_v2"])
                    .ok_or_else(|| missing(c"nvmlDeviceGetHandleByPciBusId_v2"))?,
                memory: symbol(library, &[c"nvmlDeviceGetMemoryInfo"])
                    .ok_or_else(|| missing(c"nvmlDeviceGetMemoryInfo"))?,
                memory_2: symbol(library, &[c"nvmlDeviceGetMemoryInfo_v2"]),
                processes: symbol(
                    library,
                    &[c"nvmlDeviceGetComputeRunningProcesses_v3", c"nvmlDeviceGetComputeRunningProcesses_v2"],
                ),
                initialize: symbol(library, &[c"nvmlInit_v2"]).ok_or_else(|| missing(c"nvmlInit_v2"))?,
                count: symbol(library, &[c"nvmlDeviceGetCount_v2"]),
                by_index: symbol(library, &[c"nvmlDeviceGetHandleByIndex_v2"]),
                devices: Vec::new(),
            })
        }
    }

    /// Initializes it, which may take long.
    ///
    /// # Errors
    /// A sentence fragment that says why it cannot be used.
    pub(crate) fn start(self) -> Result<Self, String> {
        // SAFETY: takes nothing.
        match unsafe { (self.initialize)() } {
            0 => Ok(self),
            error => Err(format!("nvmlInit_v2 gives error {error}")),
        }
    }

    /// Asks once of every device what readings ask: the first answers take longer. Which of them are CUDA's is not
    /// known before its own start is over.
    pub(crate) fn warm_up(&self) {
        let (Some(ask), Some(by_index)) = (self.count, self.by_index) else { return };
        let mut count = 0;
        // SAFETY: a number, and handles, that NVML writes on success.
        unsafe {
            if ask(&raw mut count) != 0 {
                return;
            }
            for index in 0..count.min(MOST_DEVICES) {
                let mut device = null_mut();
                if by_index(index, &raw mut device) == 0 && !device.is_null() {
                    _ = (self.memory(device), self.process(device, 0));
                }
            }
        }
    }

    /// Asks for device `device`, as CUDA counts, and process `pid`.
    pub(crate) fn figures(&mut self, device: u32, pid: u32) -> Option<Figures> {
        let device = self.device(device)?;
        let (free, total) = self.memory(device)?;
        Some(Figures { free, total, process: self.process(device, pid) })
    }

    /// Bytes left, and all bytes.
    fn memory(&self, device: Device) -> Option<(u64, u64)> {
        if let Some(ask) = self.memory_2 {
            let mut memory = MemoryInfo2 { version: MEMORY_2, ..MemoryInfo2::default() };
            // SAFETY: a device of NVML's, and a record that it fills.
            if unsafe { ask(device, &raw mut memory) } == 0 {
                let total = memory.total.saturating_sub(memory.reserved);
                return Some((total.saturating_sub(memory.used), total));
            }
        }
        let mut memory = MemoryInfo::default();
        // SAFETY: as above.
        (unsafe { (self.memory)(device, &raw mut memory) } == 0).then_some((memory.free, memory.total))
    }

    fn process(&self, device: Device, pid: u32) -> Option<u64> {
        let ask = self.processes?;
        let mut found = vec![ProcessInfo::default(); 64];
        loop {
            let mut count = found.len() as c_uint;
            // SAFETY: so many records have room there.
            match unsafe { ask(device, &raw mut count, found.as_mut_ptr()) } {
                0 => found.truncate(count as usize),
                MORE if (found.len() as c_uint) < MOST_PROCESSES => {
                    found.resize(found.len() * 2, ProcessInfo::default());
                    continue;
                }
                _ => return None,
            }
            // One row for each instance of a divided device.
            let own = found.iter().filter(|process| process.pid == pid);
            let known: Vec<u64> =
                own.map(|process| process.used).filter(|&used| used != NOT_AVAILABLE).collect();
            return (!known.is_empty()).then(|| known.into_iter().fold(0, u64::saturating_add));
        }
    }

    fn device(&mut self, device: u32) -> Option<Device> {
        if let Some((_, known)) = self.devices.iter().find(|known| known.0 == device) {
            return *known;
        }
        let found = self.find(device);
        self.devices.push((device, found));
        found
    }

    /// CUDA's order of devices is not NVML's, and variables change it: the device's own names decide.
    fn find(&self, device: u32) -> Option<Device> {
        let cuda = Cuda::loaded()?;
        let by = |find: ByName, name: &str| {
            let name = CString::new(name).ok()?;
            let mut found = null_mut();
            // SAFETY: a terminated name, and a pointer that is written on success.
            (unsafe { find(name.as_ptr(), &raw mut found) } == 0 && !found.is_null()).then_some(found)
        };
        if let Some(uuid) = cuda.uuid(device) {
            // A part of a divided device has a name of its own.
            let found = ["GPU", "MIG"].iter().find_map(|kind| by(self.by_uuid, &format!("{kind}-{uuid}")));
            if found.is_some() {
                return found;
            }
        }
        by(self.by_bus, &cuda.bus(device)?)
    }
}

/// What CUDA calls its devices. These functions need no context.
struct Cuda {
    uuid: Option<unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int>,
    bus: Option<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>,
}

impl Cuda {
    /// The driver that is in the process.
    fn loaded() -> Option<Self> {
        let library = open(c"libcuda.so.1", libc::RTLD_NOLOAD)?;
        // SAFETY: a library that stays; the types are those of `cuda.h`.
        unsafe {
            Some(Self {
                uuid: symbol(library, &[c"cuDeviceGetUuid_v2", c"cuDeviceGetUuid"]),
                bus: symbol(library, &[c"cuDeviceGetPCIBusId"]),
            })
        }
    }

    fn uuid(&self, device: u32) -> Option<String> {
        let mut bytes = [0; 16];
        // SAFETY: sixteen bytes have room there.
        if unsafe { self.uuid?(&raw mut bytes, device as c_int) } != 0 {
            return None;
        }
        Some(uuid_text(bytes))
    }

    fn bus(&self, device: u32) -> Option<String> {
        let mut text: [c_char; 64] = [0; 64];
        // SAFETY: the length leaves a last byte that stays 0.
        unsafe {
            if self.bus?(text.as_mut_ptr(), text.len() as c_int - 1, device as c_int) != 0 {
                return None;
            }
            Some(CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }
}

/// `8-4-4-4-12` hexadecimal digits.
fn uuid_text(bytes: [u8; 16]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| digits[part].concat()).join("-")
}

fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    // SAFETY: a terminated name; what is opened stays open for good.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | flags) };
    (!library.is_null()).then_some(library)
}

/// The first of these functions that a library has.
unsafe fn symbol<T: Copy>(library: *mut c_void, names: &[&CStr]) -> Option<T> {
    names.iter().find_map(|name| {
        // SAFETY: an open library and a terminated name; `T` is the function's type.
        unsafe {
            let found = libc::dlsym(library, name.as_ptr());
            (!found.is_null()).then(|| transmute_copy(&found))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_nvml_names_them() {
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(uuid_text(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn records_are_as_long_as_the_headers_say() {
        assert_eq!((size_of::<MemoryInfo>(), size_of::<ProcessInfo>()), (24, 24));
        assert_eq!(MEMORY_2, 0x0200_0028);
    }
}
