//! Who asked the driver for memory.
//!
//! Owns the rule: the first file of machine code above the driver and the runtime. Files of one library are one holder. Does
//! not own lines (`places`).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::model::{DriverLayer, NativeModule, NativeStackId};

use super::known_libraries::{is_between, is_of_the_allocator, library_of};

/// What a holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderKind {
    /// PyTorch's caching allocator.
    Allocator,
    /// A shared library.
    Library,
    /// The program itself.
    Program,
    /// No stack says.
    Unknown,
}

impl HolderKind {
    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Library => "library",
            Self::Program => "program",
            Self::Unknown => "unknown",
        }
    }
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// How people call it.
    pub name: String,
    /// What it is.
    pub kind: HolderKind,
    /// Files that asked, by name.
    pub modules: Vec<String>,
    /// What one should know about it.
    pub note: Option<&'static str>,
    /// Whether it is the program, or a library of its own: not a framework's, not of a package, not the system's.
    pub is_own: bool,
}

/// The holders of a process and which stack is whose.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// In the order in which they first asked; the first is [`HolderKind::Unknown`].
    pub all: Vec<Holder>,
    of_stack: FxHashMap<NativeStackId, u32>,
    by_name: BTreeMap<String, u32>,
}

/// How people call PyTorch's allocator.
pub(super) const ALLOCATOR: &str = "PyTorch's caching allocator";
const UNKNOWN: &str = "unknown";

impl Holders {
    /// Those who made the calls of `layer`; `program` is the executable's name, where it is known.
    #[must_use]
    pub fn of(layer: &DriverLayer, program: Option<&str>) -> Self {
        let mut holders = Self::default();
        holders.enter(UNKNOWN.to_owned(), HolderKind::Unknown, None);
        for row in &layer.rows {
            if !holders.of_stack.contains_key(&row.native) {
                let holder = holders.holder(layer, row.native, program);
                holders.of_stack.insert(row.native, holder);
            }
        }
        holders
    }

    /// Whose stack it is, as an index in `all`.
    #[must_use]
    pub fn of_stack(&self, stack: NativeStackId) -> u32 {
        self.of_stack.get(&stack).copied().unwrap_or(0)
    }

    /// PyTorch's caching allocator, as an index in `all`, if it ever asked.
    #[must_use]
    pub fn allocator(&self) -> Option<u32> {
        self.by_name.get(ALLOCATOR).copied()
    }

    /// Makes sure that PyTorch's allocator is among them: its memory is known by address, too, where stacks are missing.
    pub fn include_allocator(&mut self) {
        self.enter(ALLOCATOR.to_owned(), HolderKind::Allocator, None);
    }

    fn holder(&mut self, layer: &DriverLayer, stack: NativeStackId, program: Option<&str>) -> u32 {
        let Some(module) = caller(layer, stack) else { return 0 };
        let file = module.name();
        let known_as = package(&module.path).unwrap_or(file);
        let is_foreign = is_installed(&module.path);
        let (name, kind, note) = if is_of_the_allocator(file) {
            (ALLOCATOR, HolderKind::Allocator, None)
        } else if program == Some(file) {
            (file, HolderKind::Program, None)
        } else if let Some((name, note)) = library_of(known_as) {
            (name, HolderKind::Library, note)
        } else {
            (known_as, HolderKind::Library, None)
        };
        let is_listed = library_of(known_as).is_some();
        let is_own = match kind {
            // An interpreter is nobody's own; what runs in it has other files.
            HolderKind::Program => !is_foreign || !file.starts_with("python"),
            HolderKind::Library => !is_listed && !is_foreign,
            HolderKind::Allocator | HolderKind::Unknown => false,
        };
        let at = self.enter(name.to_owned(), kind, note);
        self.all[at as usize].is_own |= is_own;
        let modules = &mut self.all[at as usize].modules;
        if !modules.iter().any(|known| known == file) {
            modules.push(file.to_owned());
            modules.sort_unstable();
        }
        at
    }

    fn enter(&mut self, name: String, kind: HolderKind, note: Option<&'static str>) -> u32 {
        let next = self.all.len() as u32;
        let at = *self.by_name.entry(name.clone()).or_insert(next);
        if at == next {
            self.all.push(Holder { name, kind, modules: Vec::new(), note, is_own: false });
        }
        at
    }
}

/// The file that asked.
fn caller(layer: &DriverLayer, stack: NativeStackId) -> Option<&NativeModule> {
    let native = &layer.native;
    let frames = native.stack(stack).iter().map(|&frame| native.frames()[frame as usize]);
    frames
        .map(|frame| native.module_of(frame))
        .find(|module| !module.path.is_empty() && !is_between(module.name()))
}

/// Whether a file came with a package, a toolkit or the system.
fn is_installed(path: &str) -> bool {
    let within = ["/site-packages/", "/dist-packages/", "/cuda/", "/cuda-"];
    let below = ["/usr/", "/lib/", "/lib64/", "/opt/nvidia/"];
    within.iter().any(|part| path.contains(part))
        || below.iter().any(|start| path.starts_with(start)) && !path.starts_with("/usr/local/bin/")
}

/// The package that an extension module of Python is of: its own file name says little.
fn package(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next()?;
    if !file.contains(".cpython-") && !file.contains(".abi3.") {
        return None;
    }
    let below = ["/site-packages/", "/dist-packages/"]
        .into_iter()
        .filter_map(|folder| path.rfind(folder).map(|at| at + folder.len()));
    path[below.max()?..].split(['/', '.']).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::samples::recorded;
    use crate::model::{DriverRow, NativeFrame};

    fn layer(stacks: &[&[&str]]) -> DriverLayer {
        let mut layer = DriverLayer::default();
        for stack in stacks {
            let frames: Vec<u32> = stack
                .iter()
                .map(|path| {
                    let module = layer
                        .native
                        .push_module(NativeModule { path: (*path).to_owned(), ..NativeModule::default() });
                    layer.native.push_frame(NativeFrame { module, offset: 1 })
                })
                .collect();
            let native = layer.native.push_stack(frames);
            layer.rows.push(DriverRow { native, ..DriverRow::default() });
        }
        layer
    }

    fn names(stacks: &[&[&str]]) -> Vec<(String, HolderKind)> {
        let layer = layer(stacks);
        let holders = Holders::of(&layer, Some("sim"));
        let of = |row: &DriverRow| &holders.all[holders.of_stack(row.native) as usize];
        layer.rows.iter().map(|row| (of(row).name.clone(), of(row).kind)).collect()
    }

    #[test]
    fn the_first_file_above_the_runtime_holds() {
        let found = names(&[
            &["/n/libcuda.so.1", "/n/libcudart.so.13", "/t/libc10_cuda.so", "/t/libtorch.so"],
            &["/n/libcuda.so.1", "/n/libcublasLt.so.13", "/n/libcublas.so.13", "/t/libtorch_cuda.so"],
            &["/n/libcuda.so.1", "", "/home/me/sim"],
            &["/n/libcuda.so.1", "/home/me/libmine.so", "/home/me/sim"],
            &["/n/libcuda.so.1", "/n/libcudart.so.13"],
            &[],
        ]);
        let found: Vec<_> = found.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(
            found,
            [
                (ALLOCATOR, HolderKind::Allocator),
                ("cuBLAS", HolderKind::Library),
                ("sim", HolderKind::Program),
                ("libmine.so", HolderKind::Library),
                (UNKNOWN, HolderKind::Unknown),
                (UNKNOWN, HolderKind::Unknown),
            ]
        );
    }

    #[test]
    fn extension_modules_of_python_are_their_package() {
        let found = names(&[
            &[
                "/v/lib/python3.12/site-packages/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so",
            ],
            &["/v/lib/python3.12/site-packages/_mine.abi3.so"],
            &["/home/me/build/ext.cpython-312-x86_64-linux-gnu.so"],
        ]);
        let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, ["CuPy", "_mine", "ext.cpython-312-x86_64-linux-gnu.so"]);
    }

    #[test]
    fn holders_of_a_recorded_job() {
        let layer = recorded("torch").driver.unwrap();
        let holders = Holders::of(&layer, Some("python3.12"));
        let names: Vec<_> = holders.all.iter().map(|holder| holder.name.as_str()).collect();
        assert_eq!(names, ["unknown", ALLOCATOR, "cuBLAS", "cuDNN"]);
        assert_eq!(holders.all[2].modules, ["libcublas.so.13", "libcublasLt.so.13"]);
        assert!(!holders.all.iter().any(|holder| holder.is_own));
        let program = recorded("cupti").driver.unwrap();
        let holders = Holders::of(&program, Some("leaks"));
        let own: Vec<_> =
            holders.all.iter().filter(|holder| holder.is_own).map(|holder| holder.name.as_str()).collect();
        assert_eq!(own, ["leaks"]);
        assert_eq!(holders.all[holders.by_name["leaks"] as usize].kind, HolderKind::Program);
    }
}
