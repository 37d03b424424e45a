//! The return addresses of the calling thread, quickly.
//!
//! Owns a walk that keeps the rule for every address it has met (`framehop`), which takes a fifth of the time of the
//! system's unwinder, goes only as far as the stack differs from the last one (`memo`), and is not made at all from a
//! stack that is as it was (`recall`). Where it cannot go on (a stack that is not the thread's own, code without tables)
//! the system's unwinder does the walk.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};

use crate::frame_pointer::{other_step, usage};
use crate::memo::{Memo, Next, Place};
use crate::modules::{Loaded, UnwindTables};
use crate::recall::Recall;
use crate::unwind::Addresses;

/// Caches that are kept for threads to come back to.
const MOST_CACHES: usize = 8;

pub(crate) type Unwinder = UnwinderNative<&'static [u8], MayAllocateDuringUnwind>;

/// What one walk leaves for the next.
#[derive(Default)]
struct Cache {
    /// Rules by addresses. Each holds one rule in each of some hundred places, which two frames of a deep stack easily
    /// share; so addresses are spread over several.
    rules: [CacheNative<MayAllocateDuringUnwind>; 4],
    memo: Memo,
    recall: Recall,
    /// What was found if it cannot be recalled.
    other: Addresses,
}

/// Walks stacks for all threads of a process.
#[derive(Default)]
pub(crate) struct Walker {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// For what was loaded at these counts of the linker.
    unwinder: Option<((u64, u64), Arc<Unwinder>)>,
    /// As many as threads have walked at once, and some more, the one that was used last behind all others.
    /// Boxed, for a cache has some kilobytes and travels.
    #[allow(clippy::vec_box)]
    caches: Vec<Box<Cache>>,
}

impl Kept {
    fn cache(&mut self, end: Option<u64>) -> Box<Cache> {
        let own = self.caches.iter().rposition(|cache| Some(cache.recall.stack_end()) == end);
        match own {
            Some(at) => self.caches.remove(at),
            None if self.caches.len() < MOST_CACHES => Box::default(),
            None => self.caches.remove(0),
        }
    }
}

impl Walker {
    /// The calling thread's addresses. `generation` are the linker's counts.
    pub(crate) fn here(&self, generation: (u64, u64)) -> Found<'_> {
        let here = 0u8;
        let (at, unwinder, mut cache) = self.take(generation, stack_end(&raw const here as u64));
        let recalled = match walk(&unwinder, at, &mut cache) {
            Some(Holder::Recall(walk)) => Some(walk),
            Some(Holder::Cache) => None,
            None => {
                cache.memo.forget();
                cache.other = Addresses::here();
                None
            }
        };
        Found { walker: self, cache: Some(cache), recalled, is_current: at == generation }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unwinder, for what was loaded at which counts, and a cache: that of the thread whose stack ends there, if it
    /// is kept.
    fn take(&self, generation: (u64, u64), end: Option<u64>) -> ((u64, u64), Arc<Unwinder>, Box<Cache>) {
        let mut kept = self.lock();
        let cache = kept.cache(end);
        if let Some((at, unwinder)) = &kept.unwinder
            && *at == generation
        {
            return (generation, Arc::clone(unwinder), cache);
        }
        // The linker is asked without a lock of ours.
        drop(kept);
        let loaded = Loaded::now();
        let made = Arc::new(unwinder(&loaded));
        self.lock().unwinder = Some((loaded.generation, Arc::clone(&made)));
        (loaded.generation, made, cache)
    }
}

/// The addresses of a thread, for as long as somebody looks at them.
pub(crate) struct Found<'w> {
    walker: &'w Walker,
    /// There until the end.
    cache: Option<Box<Cache>>,
    /// Number of the walk that has them, if it is remembered.
    recalled: Option<usize>,
    /// Whether the walk is of the linker's counts that were asked for.
    is_current: bool,
}

impl Found<'_> {
    /// Innermost first; some of the recorder's own stand before the program's.
    pub(crate) fn addresses(&self) -> &[usize] {
        let Some(cache) = &self.cache else { return &[] };
        self.recalled.map_or(&cache.other, |at| cache.recall.addresses(at)).as_slice()
    }

    /// The stack's id, if it was learned.
    pub(crate) fn id(&self) -> Option<u32> {
        self.cache.as_ref()?.recall.id(self.recalled.filter(|_| self.is_current)?)
    }

    /// Takes in the stack's id, which stays while no file comes or goes.
    pub(crate) fn learn(&mut self, id: u32) {
        if let (Some(at), Some(cache)) = (self.recalled.filter(|_| self.is_current), &mut self.cache) {
            cache.recall.learn_id(at, id);
        }
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        self.walker.lock().caches.extend(self.cache.take());
    }
}

fn unwinder(loaded: &Loaded) -> Unwinder {
    let mut unwinder = Unwinder::new();
    for (module, tables) in loaded.modules.iter().zip(&loaded.tables) {
        let Some(tables) = tables else { continue };
        let UnwindTables { code, header, frames } = tables;
        let relative = |range: &std::ops::Range<u64>| {
            range.start.wrapping_sub(module.bias)..range.end.wrapping_sub(module.bias)
        };
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(relative(frames)),
            eh_frame: Some(bytes(frames)),
            eh_frame_hdr_svma: Some(relative(header)),
            eh_frame_hdr: Some(bytes(header)),
            ..Default::default()
        };
        unwinder.add_module(Module::new(String::new(), code.clone(), module.bias, sections));
    }
    unwinder
}

/// Mapped bytes of a loaded file. They are read only while a frame of that file is on the stack that is walked, so the
/// file cannot go meanwhile.
fn bytes(range: &std::ops::Range<u64>) -> &'static [u8] {
    // SAFETY: within a range that the linker has mapped; see above.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
}

/// Who has the addresses of a walk.
enum Holder {
    /// The remembered walk of this number.
    Recall(usize),
    /// The cache, until the next one.
    Cache,
}

/// `None` where the walk cannot be trusted to the end.
#[inline(never)]
fn walk(unwinder: &Unwinder, generation: (u64, u64), cache: &mut Cache) -> Option<Holder> {
    let (pc, sp, mut registers) = registers();
    let end = stack_end(sp)?;
    let Cache { rules, memo, recall, other } = cache;
    let start = Place::new(pc, &registers);
    // SAFETY: the stack pointer and the end are those of this thread's stack.
    if let Some(known) = unsafe { recall.find(generation, end, start) } {
        return Some(Holder::Recall(known));
    }
    memo.begin(generation, end);
    let found = other;
    found.clear();
    found.push(pc as usize);
    let mut at = FrameAddress::from_instruction_pointer(pc);
    // A step that reads below its own stack pointer, or in vain, must not be remembered: memory there is not the
    // caller's to keep.
    let mut is_plain = true;
    let is_whole = loop {
        let own_sp = registers.sp();
        let own_rules = &mut rules[(at.address() >> 4 ^ at.address() >> 13) as usize % 4];
        let is_first = !at.is_return_address();
        let mut read = |address: u64| {
            let is_stack = address >= sp && address.checked_add(8).is_some_and(|behind| behind <= end);
            is_plain &= is_stack && (address >= own_sp || is_first);
            if !is_stack {
                return Err(());
            }
            // SAFETY: within this thread's stack, above the frame that is running.
            let value = unsafe { (address as *const u64).read_unaligned() };
            memo.read(address, value);
            Ok(value)
        };
        let before = registers;
        let outcome = unwinder.unwind_frame(at, &mut registers, own_rules, &mut read).ok()?;
        let other = other_step(unwinder, at, &before, own_rules, sp..end);
        memo.uses(usage(outcome, (&before, &registers), other, memo));
        let Some(address) = outcome else {
            break Some(true);
        };
        at = FrameAddress::from_return_address(address)?;
        is_plain &= is_first || registers.sp() > own_sp;
        let place = Place::new(address, &registers);
        if !found.push(address as usize) {
            memo.cut(place);
            break Some(false);
        }
        match memo.reached(place, found) {
            Next::Step => {}
            Next::From(place) => {
                at = FrameAddress::from_return_address(place.address)?;
                registers = place.registers();
            }
            Next::Done => break None,
        }
    };
    if let Some(is_whole) = is_whole {
        memo.end(is_whole);
    }
    if is_plain {
        return Some(Holder::Recall(recall.learn(start, memo, found)));
    }
    memo.forget();
    Some(Holder::Cache)
}

/// Where this code is; it must be part of the function whose frame is the first.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::inline_always)]
#[inline(always)]
fn registers() -> (u64, u64, UnwindRegsNative) {
    let (pc, sp, bp): (u64, u64, u64);
    // SAFETY: reads registers and nothing else.
    unsafe {
        std::arch::asm!(
            "lea {pc}, [rip]", "mov {sp}, rsp", "mov {bp}, rbp",
            pc = out(reg) pc, sp = out(reg) sp, bp = out(reg) bp, options(nomem, nostack, preserves_flags)
        );
    }
    (pc, sp, UnwindRegsNative::new(pc, sp, bp))
}

/// See above.
#[cfg(target_arch = "aarch64")]
#[allow(clippy::inline_always)]
#[inline(always)]
fn registers() -> (u64, u64, UnwindRegsNative) {
    let (pc, sp, fp, lr): (u64, u64, u64, u64);
    // SAFETY: reads registers and nothing else.
    unsafe {
        std::arch::asm!(
            "adr {pc}, .", "mov {sp}, sp", "mov {fp}, x29", "mov {lr}, x30",
            pc = out(reg) pc, sp = out(reg) sp, fp = out(reg) fp, lr = out(reg) lr,
            options(nomem, nostack, preserves_flags)
        );
    }
    (pc, sp, UnwindRegsNative::new(lr, sp, fp))
}

thread_local! {
    static STACK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// End of this thread's stack, if `sp` is in it: a coroutine's is elsewhere.
fn stack_end(sp: u64) -> Option<u64> {
    let (mut start, mut end) = STACK.get();
    if end == 0 {
        (start, end) = stack()?;
        STACK.set((start, end));
    }
    (start..end).contains(&sp).then_some(end)
}

/// Whether so many bytes at an address are part of the calling thread's stack, above the frames that are running: they
/// are there for as long as those.
pub(crate) fn is_on_own_stack(at: usize, bytes: usize) -> bool {
    let here = 0u8;
    let sp = &raw const here as u64;
    let behind = (at as u64).checked_add(bytes as u64);
    at as u64 > sp && behind.is_some_and(|behind| stack_end(sp).is_some_and(|end| behind <= end))
}

fn stack() -> Option<(u64, u64)> {
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes are filled by the first call, and destroyed once after it.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let error = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (error == 0).then_some((start as u64, start as u64 + bytes as u64))
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
