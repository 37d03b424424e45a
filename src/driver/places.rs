//! Where memory was asked for: the user's line, as far as stacks and names say.
//!
//! Owns the rule that picks one frame of a call's stacks. Python's frames come first, as for every line; then the innermost
//! machine code with a source line that is not a header of the system; then the library's function that was called. Names
//! of machine code come from outside (`symbols`).

use rustc_hash::FxHashMap;

use crate::model::{DriverLayer, DriverRow, FrameId, NativeStackId, StackId, Trace};
use crate::tables::{FrameClass, classify_frames};

use super::known_libraries::is_between;

/// A place in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// File of machine code, where no source is known.
    pub module: Option<String>,
}

/// Places of stacks, each found once.
pub struct Places<'a> {
    trace: &'a Trace,
    layer: &'a DriverLayer,
    classes: Vec<FrameClass>,
    known: FxHashMap<(NativeStackId, StackId), Place>,
}

impl<'a> Places<'a> {
    /// Places of the calls of `layer`, which is of `trace`.
    #[must_use]
    pub fn new(trace: &'a Trace, layer: &'a DriverLayer) -> Self {
        Self { trace, layer, classes: classify_frames(trace), known: FxHashMap::default() }
    }

    /// Where `row` was called from.
    pub fn of(&mut self, row: &DriverRow) -> &Place {
        self.of_stacks(row.native, row.python)
    }

    /// Where a call with these stacks came from.
    pub fn of_stacks(&mut self, native: NativeStackId, python: StackId) -> &Place {
        if !self.known.contains_key(&(native, python)) {
            let place = self.find(native, python);
            self.known.insert((native, python), place);
        }
        &self.known[&(native, python)]
    }

    fn find(&self, native: NativeStackId, python: StackId) -> Place {
        self.python(python, FrameClass::User)
            .or_else(|| self.source(native))
            .or_else(|| self.python(python, FrameClass::Library))
            .or_else(|| self.machine_code(native))
            .unwrap_or_default()
    }

    /// The innermost Python frame of this class.
    fn python(&self, stack: StackId, class: FrameClass) -> Option<Place> {
        let is_it = |id: &&FrameId| self.classes.get(id.0 as usize) == Some(&class);
        let frame = self.trace.frames.get(*self.trace.stacks.get(stack).iter().find(is_it)?);
        let text = |id| Some(self.trace.strings.get(id).to_owned()).filter(|text| !text.is_empty());
        let line = Some(frame.line).filter(|&line| line != 0 && line != u64::MAX);
        Some(Place { file: text(frame.file), line, function: text(frame.function), module: None })
    }

    /// The innermost machine code with a source line of somebody's own.
    fn source(&self, stack: NativeStackId) -> Option<Place> {
        let named = self.callers(stack).flat_map(|frame| self.layer.names.of(frame));
        let own = named.into_iter().find(|name| {
            name.line.is_some() && name.file.as_deref().is_some_and(|file| !is_of_the_system(file))
        })?;
        Some(Place { file: own.file.clone(), line: own.line, function: own.function.clone(), module: None })
    }

    /// Of the file that asked, the outermost of its frames that follow each other: the function that others call.
    fn machine_code(&self, stack: NativeStackId) -> Option<Place> {
        let native = &self.layer.native;
        let module_of = |frame: u32| native.module_of(native.frames()[frame as usize]);
        let is_file = |frame: &u32| !module_of(*frame).path.is_empty();
        let first = self.callers(stack).find(is_file)?;
        let module = module_of(first);
        let of_module: Vec<u32> = self
            .callers(stack)
            .skip_while(|frame| !is_file(frame))
            .take_while(|&frame| module_of(frame).path == module.path)
            .collect();
        let function =
            of_module.iter().rev().find_map(|&frame| self.layer.names.of(frame).last()?.function.clone());
        Some(Place { function, module: Some(module.name().to_owned()), ..Place::default() })
    }

    /// Frames from the one that asked outwards.
    fn callers(&self, stack: NativeStackId) -> impl Iterator<Item = u32> + '_ {
        let native = &self.layer.native;
        let frames = native.stack(stack).iter().copied();
        frames.skip_while(|&frame| is_between(native.module_of(native.frames()[frame as usize]).name()))
    }
}

/// Headers that are inlined into everybody's code, and the start of every program.
fn is_of_the_system(file: &str) -> bool {
    let parts = [
        "/usr/include/",
        "/include/c++/",
        "/usr/local/cuda",
        "/targets/x86_64-linux/include/",
        "/glibc",
        "/csu/",
        "/gcc/",
    ];
    parts.iter().any(|part| file.contains(part)) || file.starts_with('<')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Frame, NativeFrame, NativeModule, NativeName};

    fn name(function: &str, file: &str, line: u64) -> NativeName {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        NativeName { function: text(function), file: text(file), line: Some(line).filter(|&line| line > 0) }
    }

    /// A stack through libcuda, a library (two frames) and a program, with these names of the three.
    fn found(names: [Vec<NativeName>; 3], python: &[(&str, u64)]) -> Place {
        let mut trace = Trace::default();
        let mut layer = DriverLayer::default();
        let mut module = |path: &str| {
            layer.native.push_module(NativeModule { path: path.to_owned(), ..NativeModule::default() })
        };
        let modules = ["/n/libcuda.so.1", "/l/libx.so.2", "/l/libx.so.2", "/h/sim"].map(&mut module);
        let frames = modules.map(|module| layer.native.push_frame(NativeFrame { module, offset: 9 }));
        let native = layer.native.push_stack(frames);
        let mut ids = Vec::new();
        for &(file, line) in python {
            let (file, function) = (trace.strings.intern(file), trace.strings.intern("step"));
            ids.push(trace.frames.intern(Frame { function, file, line }));
        }
        let python = trace.stacks.intern(&ids);
        layer.names.of_frame = [vec![vec![name("cuMemAlloc", "", 0)]], names.to_vec()].concat();
        Places::new(&trace, &layer).of(&DriverRow { native, python, ..DriverRow::default() }).clone()
    }

    #[test]
    fn the_users_python_comes_first() {
        let names = || [vec![name("inner", "x.cu", 3)], vec![], vec![]];
        let place = found(names(), &[("/v/site-packages/torch/a.py", 4), ("/h/train.py", 12)]);
        assert_eq!((place.file.as_deref(), place.line), (Some("/h/train.py"), Some(12)));
        let library_only = found(names(), &[("/v/site-packages/torch/a.py", 4)]);
        assert_eq!((library_only.file.as_deref(), library_only.line), (Some("x.cu"), Some(3)));
    }

    #[test]
    fn the_innermost_source_that_is_no_header_is_the_line() {
        let inlined =
            vec![name("operator()", "/usr/include/c++/12/bits/f.h", 7), name("grow", "/h/sim.cu", 30)];
        let place = found([vec![name("api", "", 0)], vec![], inlined], &[]);
        assert_eq!((place.file.as_deref(), place.line), (Some("/h/sim.cu"), Some(30)));
        assert_eq!((place.function.as_deref(), place.module), (Some("grow"), None));
    }

    #[test]
    fn without_lines_it_is_the_librarys_function_that_was_called() {
        let place = found(
            [vec![name("internal", "", 0)], vec![name("xCreate", "", 0)], vec![name("main", "", 0)]],
            &[],
        );
        assert_eq!(
            (place.function.as_deref(), place.module.as_deref()),
            (Some("xCreate"), Some("libx.so.2"))
        );
        let nameless = found([vec![], vec![], vec![]], &[]);
        assert_eq!((nameless.function, nameless.module.as_deref()), (None, Some("libx.so.2")));
    }

    #[test]
    fn no_stack_is_no_place() {
        let (trace, layer) = (Trace::default(), DriverLayer::default());
        assert_eq!(*Places::new(&trace, &layer).of(&DriverRow::default()), Place::default());
    }
}
