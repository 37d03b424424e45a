//! What to do about a verdict, in the version that printed the message.
//!
//! Owns which settings a version knows and what they are called. Never advises what is on already, nor what
//! the platform does not have.

use std::cmp::Reverse;

use super::clauses::Form;
use super::explain::has_large_pools;
use super::kind::{Kind, Platform};
use super::read::{Expandable, Message};
use super::size::Printed;
use super::sums::Sums;
use super::tip::Tip;
use super::variant::{self, Variant};
use crate::findings::VerdictKind;
use crate::findings::thresholds::EXPECTED_OUTSIDE_BYTES;

const LESS: &str = "Use less: a smaller batch or sequence, lower precision, activation checkpointing, optimizer state elsewhere.";
const LIMIT: &str = "Raise or remove the limit (`torch.cuda.set_per_process_memory_fraction`, `per_process_memory_fraction` in the allocator's settings, or the option of the framework that sets it), or use less within it.";

/// The sentences that say what to do.
#[must_use]
pub fn remedy(message: &Message, sums: &Sums, cause: VerdictKind) -> Vec<String> {
    let mut said = match message.kind {
        Kind::Allocator | Kind::Async => by_cause(message, sums, cause),
        _ => without_figures(message).into_iter().map(str::to_owned).collect(),
    };
    if has_large_pools(sums) {
        said.push("Capture fewer graphs: pad inputs to few shapes, share one pool among captures, drop graphs that are no longer replayed.".to_owned());
    }
    said.push(record(message));
    said
}

fn by_cause(message: &Message, sums: &Sums, cause: VerdictKind) -> Vec<String> {
    let one = |text: &str| vec![text.to_owned()];
    match cause {
        VerdictKind::HugeRequest => {
            let mut said = one(
                "Look at the shapes on the line that asked: a broadcast, an outer product, or a size taken from the data is usually behind it.",
            );
            let fits_device =
                sums.requested.zip(sums.total).is_some_and(|(asked, total)| asked.bytes <= total.bytes);
            said.extend(fits_device.then(|| LIMIT.to_owned()));
            said
        }
        VerdictKind::Fragmentation => fragmentation(message),
        VerdictKind::NearCapacity => one(LESS).into_iter().chain(if_little_is_missing(message)).collect(),
        VerdictKind::Capacity => vec![LESS.to_owned(), "Settings of the allocator will not help.".to_owned()],
        VerdictKind::MemoryCap => one(LIMIT),
        VerdictKind::DriverRefused => refused(message),
        VerdictKind::OutsideAllocator => outside(message, sums),
        VerdictKind::Unknown | VerdictKind::PendingAtOom => one(
            "Find the whole message in the log of the process itself: what follows the first sentence decides.",
        ),
    }
}

fn without_figures(message: &Message) -> Vec<&'static str> {
    match message.kind {
        Kind::Oldest => vec![LESS, "Move to a newer PyTorch, whose message says where the memory is."],
        Kind::Driver => vec![
            "Leave room beside PyTorch: a smaller batch, a memory fraction below 1, or `torch.cuda.empty_cache()` before the first use of a library.",
            others(message.platform),
        ],
        Kind::Library("NCCL") => vec![
            "Leave room for NCCL, which needs some hundred MiB to several GiB: fewer process groups, a smaller `NCCL_BUFFSIZE`, or a memory fraction below 1 for PyTorch. Run once with `NCCL_DEBUG=INFO` to see what it asks for.",
        ],
        Kind::Library(_) => vec![
            "Leave room beside PyTorch: a smaller batch, or `torch.cuda.empty_cache()` before the library is first used. If memory was plenty, run with `CUDA_LAUNCH_BLOCKING=1` to find an index that is out of range.",
        ],
        Kind::Assertion => vec![
            "Do not combine expandable segments with `max_split_size_mb` or `garbage_collection_threshold`. End the process after this message, and look for the out-of-memory error before it.",
        ],
        Kind::Query => vec![
            "Treat it as an out-of-memory error: use less. On Jetson, which shares its memory with the system, `tegrastats` shows who uses it; elsewhere check that driver and NVML are of one version.",
        ],
        Kind::Allocator | Kind::Async => Vec::new(),
    }
}

fn others(platform: Platform) -> &'static str {
    match platform {
        Platform::Cuda => {
            "See with `nvidia-smi` who else is on the device: other jobs, processes of an earlier run, other ranks (call `torch.cuda.set_device(rank)` before the first use of CUDA, give `map_location` to `torch.load`)."
        }
        Platform::Hip => {
            "See with `amd-smi` or `rocm-smi` who else is on the device: other jobs, processes of an earlier run, other ranks (call `torch.cuda.set_device(rank)` before the first use of the device, give `map_location` to `torch.load`)."
        }
        Platform::Xpu => {
            "See with `xpu-smi` who else is on the device: the desktop, other jobs, other ranks (call `torch.xpu.set_device(rank)` first, give `map_location` to `torch.load`)."
        }
        Platform::Other => {
            "See who else is on the device: other jobs, processes of an earlier run, other ranks (choose the device before its first use, give `map_location` to `torch.load`)."
        }
    }
}

fn fragmentation(message: &Message) -> Vec<String> {
    const ORDER: &str = "Largest shapes first also helps: later ones then reuse their blocks.";
    let mut said = Vec::new();
    if message.platform == Platform::Xpu {
        said.push("Call `torch.xpu.empty_cache()` between phases with different shapes.".to_owned());
    }
    let setting = expandable_setting(message);
    match (message.expandable, setting) {
        (Expandable::On, _) => said.push("Expandable segments seem to be on already, so no setting is left to try: run the largest shapes first, free between phases what they kept, and find the blocks that pin the holes.".to_owned()),
        (Expandable::NotSupported, _) => said.push("The log says that expandable segments are not supported here: try a smaller `max_split_size_mb`, run the largest shapes first, and find the blocks that pin the holes.".to_owned()),
        (Expandable::Unknown, Some(setting)) => {
            let lacks_tip = variant::lacks_its_tip(&message.fields);
            let why = if lacks_tip { "the message lacks its tip, which newer versions leave out then" } else { "most versions print their tip even then" };
            said.push(format!("Set {setting} before the first use of the device, unless it is set already ({why})."));
            said.push(format!("Do not combine it with `max_split_size_mb`. {ORDER}"));
        }
        (Expandable::Unknown, None) => {
            said.push(split_size(message));
            said.push(format!("Expandable segments, which work better, need PyTorch 2.1 or newer. {ORDER}"));
        }
    }
    said
}

/// The setting that switches expandable segments on, by the name that this version knows.
fn expandable_setting(message: &Message) -> Option<&'static str> {
    let is_old = message.form() == Some(Form::Brackets);
    match (message.platform, message.tip(), message.variant()) {
        (Platform::Other, ..) => None,
        (Platform::Xpu, ..) => {
            Some("`PYTORCH_ALLOC_CONF=expandable_segments:True` (read for XPU from PyTorch 2.11 on)")
        }
        _ if is_old => None,
        (_, Tip::AllocConf, _) | (_, _, Variant::V7) => Some("`PYTORCH_ALLOC_CONF=expandable_segments:True`"),
        (Platform::Hip, Tip::CudaConf, _) => {
            Some("`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` (ROCm reads this name, too)")
        }
        (Platform::Hip, ..) => Some("`PYTORCH_HIP_ALLOC_CONF=expandable_segments:True`"),
        (Platform::Cuda, _, variant) => {
            variant.has_expandable_segments().then_some("`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`")
        }
    }
}

/// For versions that know no expandable segments.
fn split_size(message: &Message) -> String {
    let name =
        if message.platform == Platform::Hip { "PYTORCH_HIP_ALLOC_CONF" } else { "PYTORCH_CUDA_ALLOC_CONF" };
    let since = match message.variant() {
        Variant::V1 | Variant::V2 | Variant::V2L => ", which PyTorch 1.10 and newer read",
        _ => "",
    };
    format!(
        "Try `{name}=max_split_size_mb:128`{since}: larger free blocks are then not cut up by smaller requests."
    )
}

/// A nearly full device may just fit with better packing.
fn if_little_is_missing(message: &Message) -> Option<String> {
    let setting = expandable_setting(message).filter(|_| message.expandable == Expandable::Unknown)?;
    Some(format!(
        "Where little is missing, {setting} can make one of the free pieces, but it leaves no reserve."
    ))
}

fn refused(message: &Message) -> Vec<String> {
    let mut said = vec![
        "Settings of the allocator will not help, and a tip about fragmentation does not apply.".to_owned(),
        "On Windows raise the commit limit (page file), which WDDM charges device memory to. Elsewhere look for a limit on address space (`ulimit -v`), the limit of a container or a virtual GPU, and other processes that took and gave back memory at that moment.".to_owned(),
    ];
    if message.never_names_a_limit() {
        said.push("Look whether the program or its framework sets a memory fraction.".to_owned());
    }
    said
}

fn outside(message: &Message, sums: &Sums) -> Vec<String> {
    let mut said = Vec::new();
    let named = message.others.iter().enumerate().filter(|(index, _)| Some(*index) != sums.own_process);
    let most = named.filter_map(|(_, other)| Some((Reverse(other.held?), other.process))).min();
    if let Some((Reverse(held), process)) = most {
        said.push(format!("Process {process} holds most of it, {}.", Printed(held.bytes)));
    }
    said.push(others(message.platform).to_owned());
    if sums.outside_here.is_some_and(|here| here.bytes >= EXPECTED_OUTSIDE_BYTES) {
        said.push(
            "In this process itself, fewer process groups (NCCL) and fewer captured graphs leave more."
                .to_owned(),
        );
    }
    said
}

/// What to record to learn more.
fn record(message: &Message) -> String {
    const THEN: &str = "then `memlab analyze` names the lines that hold the memory.";
    match (message.kind, message.platform, message.variant()) {
        (Kind::Async, ..) => format!(
            "The cudaMallocAsync backend keeps no record: run once with the native backend under `memlab run`; {THEN}"
        ),
        (_, Platform::Xpu, _) => format!(
            "To learn more, record a run with `torch.xpu.memory._record_memory_history()` (PyTorch 2.11 or newer) and dump a snapshot; {THEN}"
        ),
        (_, Platform::Other, _) => {
            "To learn more, record a run, where PyTorch has a memory history for this device.".to_owned()
        }
        (_, _, Variant::V0 | Variant::V1 | Variant::V2 | Variant::V2L | Variant::V3) => format!(
            "To learn more, record a run under PyTorch 2.1 or newer: `memlab run`, or `torch.cuda.memory._record_memory_history()` and `_dump_snapshot()`; {THEN}"
        ),
        _ => format!(
            "To learn more, record a run: `memlab run`, or `torch.cuda.memory._record_memory_history()` at the start and `_dump_snapshot()` where it fails; {THEN}"
        ),
    }
}
