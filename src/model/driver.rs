//! Calls of the CUDA driver that take or give back memory, as a recorder saw them.
//!
//! Owns their vocabulary: one row per call, and the stacks of machine code that rows name. What the calls amount to
//! (who holds what, and for how long) is for `driver` to say.

use super::{DeviceId, StackId};

/// What was called. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DriverCall {
    DeviceAlloc = 1,
    DeviceFree = 2,
    ManagedAlloc = 3,
    HostAlloc = 4,
    HostFree = 5,
    HostRegister = 6,
    HostUnregister = 7,
    AddressReserve = 8,
    AddressFree = 9,
    Create = 10,
    Release = 11,
    Map = 12,
    Unmap = 13,
    PoolAlloc = 14,
    PoolFree = 15,
    PoolCreate = 16,
    PoolDestroy = 17,
    PoolTrim = 18,
    ArrayCreate = 19,
    ArrayDestroy = 20,
    ContextCreate = 21,
    ContextDestroy = 22,
    ContextRetain = 23,
    ContextRelease = 24,
    ContextReset = 25,
    Retain = 26,
    Import = 27,
    IpcOpen = 28,
    IpcClose = 29,
}

impl DriverCall {
    /// All calls and their names in the format, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 29] = [
        (Self::DeviceAlloc, "device_alloc"),
        (Self::DeviceFree, "device_free"),
        (Self::ManagedAlloc, "managed_alloc"),
        (Self::HostAlloc, "host_alloc"),
        (Self::HostFree, "host_free"),
        (Self::HostRegister, "host_register"),
        (Self::HostUnregister, "host_unregister"),
        (Self::AddressReserve, "address_reserve"),
        (Self::AddressFree, "address_free"),
        (Self::Create, "create"),
        (Self::Release, "release"),
        (Self::Map, "map"),
        (Self::Unmap, "unmap"),
        (Self::PoolAlloc, "pool_alloc"),
        (Self::PoolFree, "pool_free"),
        (Self::PoolCreate, "pool_create"),
        (Self::PoolDestroy, "pool_destroy"),
        (Self::PoolTrim, "pool_trim"),
        (Self::ArrayCreate, "array_create"),
        (Self::ArrayDestroy, "array_destroy"),
        (Self::ContextCreate, "context_create"),
        (Self::ContextDestroy, "context_destroy"),
        (Self::ContextRetain, "context_retain"),
        (Self::ContextRelease, "context_release"),
        (Self::ContextReset, "context_reset"),
        (Self::Retain, "retain"),
        (Self::Import, "import"),
        (Self::IpcOpen, "ipc_open"),
        (Self::IpcClose, "ipc_close"),
    ];

    /// Name in the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }
}

/// Codes from here on are calls of the runtime that were interposed; less this, they are those of the driver.
const RUNTIME: u8 = 64;

/// Device of a row that has none, or an unknown one.
pub const NO_DEVICE: DeviceId = DeviceId(u32::MAX);

/// One call, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverRow {
    /// Code of the call, known or not: see [`DriverRow::call`].
    pub code: u8,
    /// Place among all calls of the process. See `docs/trace-format.md`: a call that gives back has its number from
    /// before it, any other from after.
    pub order: u64,
    /// Unix microseconds at which `order` was taken.
    pub time_us: i64,
    /// What the call returned; 0 is success.
    pub result: u32,
    /// GPU index; [`NO_DEVICE`] for none.
    pub device: DeviceId,
    /// The context that was current; 0 for none.
    pub context: u64,
    /// Stream of calls that are ordered by one.
    pub stream: u64,
    /// Device address; the host's for `host_*` calls.
    pub address: u64,
    /// What was asked for, in bytes.
    pub bytes: u64,
    /// Physical memory, pool, array or context.
    pub handle: u64,
    /// First byte of a mapping within the physical memory.
    pub offset: u64,
    /// The call's flags as they are.
    pub flags: u64,
    /// The system's thread id.
    pub thread: u64,
    /// How many recorded calls of the thread were under way around this one.
    pub depth: u32,
    /// Machine code that called.
    pub native: NativeStackId,
    /// Python code that called, in the trace's stacks.
    pub python: StackId,
}

impl DriverRow {
    /// What was called; `None` for a code that this version does not know.
    #[must_use]
    pub fn call(&self) -> Option<DriverCall> {
        let code = if self.is_of_the_runtime() { self.code - RUNTIME } else { self.code };
        DriverCall::ALL.get(usize::from(code).checked_sub(1)?).map(|(call, _)| *call)
    }

    /// Whether a function of the runtime was interposed, not one of the driver.
    #[must_use]
    pub fn is_of_the_runtime(&self) -> bool {
        self.code >= RUNTIME
    }

    /// Whether the call did what was asked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.result == 0
    }
}

/// A stack of machine code in [`NativeTables`]. Zero: none was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NativeStackId(pub u32);

/// A file of machine code that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeModule {
    /// Path as the dynamic linker names it; empty for module 0, which is no file.
    pub path: String,
    /// `NT_GNU_BUILD_ID` in hexadecimal digits; empty if it has none.
    pub build_id: String,
    /// What was added to the file's virtual addresses.
    pub bias: u64,
}

impl NativeModule {
    /// The file's name without its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// A return address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NativeFrame {
    /// Index in [`NativeTables::modules`]; 0: in no file.
    pub module: u32,
    /// Virtual address in the module's file, or in the process for module 0.
    pub offset: u64,
}

/// Modules, frames and stacks of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeTables {
    modules: Vec<NativeModule>,
    frames: Vec<NativeFrame>,
    flat: Vec<u32>,
    ends: Vec<usize>,
}

impl Default for NativeTables {
    fn default() -> Self {
        Self { modules: vec![NativeModule::default()], frames: Vec::new(), flat: Vec::new(), ends: vec![0] }
    }
}

impl NativeTables {
    /// Adds a module and answers its index.
    pub fn push_module(&mut self, module: NativeModule) -> u32 {
        self.modules.push(module);
        self.modules.len() as u32 - 1
    }

    /// Adds a frame and answers its index. A module that is not there becomes module 0.
    pub fn push_frame(&mut self, frame: NativeFrame) -> u32 {
        let is_known = (frame.module as usize) < self.modules.len();
        self.frames.push(NativeFrame { module: if is_known { frame.module } else { 0 }, ..frame });
        self.frames.len() as u32 - 1
    }

    /// Adds a stack of frames, innermost first. Frames that are not there are left out.
    pub fn push_stack(&mut self, frames: impl IntoIterator<Item = u32>) -> NativeStackId {
        let known = self.frames.len();
        self.flat.extend(frames.into_iter().filter(|&frame| (frame as usize) < known));
        self.ends.push(self.flat.len());
        NativeStackId(self.ends.len() as u32 - 1)
    }

    /// All modules; the first is no file.
    #[must_use]
    pub fn modules(&self) -> &[NativeModule] {
        &self.modules
    }

    /// The module of `frame`.
    #[must_use]
    pub fn module_of(&self, frame: NativeFrame) -> &NativeModule {
        &self.modules[if (frame.module as usize) < self.modules.len() { frame.module as usize } else { 0 }]
    }

    /// All frames.
    #[must_use]
    pub fn frames(&self) -> &[NativeFrame] {
        &self.frames
    }

    /// Indices of the frames of `stack`, innermost first; none for a stack that is not there.
    #[must_use]
    pub fn stack(&self, stack: NativeStackId) -> &[u32] {
        let id = stack.0 as usize;
        match (id.checked_sub(1).map(|before| self.ends.get(before)), self.ends.get(id)) {
            (Some(Some(&from)), Some(&to)) => &self.flat[from..to],
            _ => &[],
        }
    }

    /// How many stacks there are, the empty one included.
    #[must_use]
    pub fn stack_count(&self) -> usize {
        self.ends.len()
    }
}

/// What is known of the code at one address: a function, or one that was inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeName {
    /// Function, readable.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u64>,
}

/// Names of machine code. No file has them: they come from the binaries, where somebody had these looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeNames {
    /// Whether binaries were looked at.
    pub asked: bool,
    /// By index of the frame, the innermost inlined function first; empty where nothing is known.
    pub of_frame: Vec<Vec<NativeName>>,
    /// Modules that could not be used, and why.
    pub missing: Vec<(u32, String)>,
}

impl NativeNames {
    /// Names of the frame of this index.
    #[must_use]
    pub fn of(&self, frame: u32) -> &[NativeName] {
        self.of_frame.get(frame as usize).map_or(&[], Vec::as_slice)
    }
}

/// All that a recorder of driver calls saw in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverLayer {
    /// Calls, by [`DriverRow::order`].
    pub rows: Vec<DriverRow>,
    /// What [`DriverRow::native`] points into.
    pub native: NativeTables,
    /// Whether the recording of calls was closed and nothing is known to be missing.
    pub complete: bool,
    /// What machine code is called, if that was asked.
    pub names: NativeNames,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_together() {
        for (place, (call, name)) in DriverCall::ALL.into_iter().enumerate() {
            assert_eq!((call as usize, call.name()), (place + 1, name));
            for code in [call as u8, call as u8 + RUNTIME] {
                assert_eq!(DriverRow { code, ..DriverRow::default() }.call(), Some(call));
            }
        }
        for code in [0, 30, 63, 64, 94, 255] {
            assert_eq!(DriverRow { code, ..DriverRow::default() }.call(), None);
        }
    }

    #[test]
    fn stacks_of_unknown_parts_are_empty_and_safe() {
        let mut tables = NativeTables::default();
        let module = tables
            .push_module(NativeModule { path: "/usr/lib/liba.so.1".to_owned(), ..NativeModule::default() });
        let frame = tables.push_frame(NativeFrame { module, offset: 16 });
        let lost = tables.push_frame(NativeFrame { module: 9, offset: 32 });
        let stack = tables.push_stack([frame, 77, lost]);
        assert_eq!(tables.stack(stack), [frame, lost]);
        assert_eq!(tables.module_of(tables.frames()[frame as usize]).name(), "liba.so.1");
        assert_eq!(tables.module_of(tables.frames()[lost as usize]).name(), "");
        assert_eq!((tables.stack(NativeStackId(0)), tables.stack(NativeStackId(5))), (&[][..], &[][..]));
    }
}
