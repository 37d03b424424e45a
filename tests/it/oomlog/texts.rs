//! Out-of-memory messages of every generation, with any figures, and what logs do to them.

use std::fmt::Write as _;

use crate::inputs::Seeded;

/// What a message says; `None` where its variant does not say it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values {
    pub(crate) requested: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) free: Option<u64>,
    pub(crate) allocated: Option<u64>,
    pub(crate) reserved: Option<u64>,
    pub(crate) unallocated: Option<u64>,
    pub(crate) allowed: Option<u64>,
    pub(crate) private: Option<u64>,
    pub(crate) process: Option<u64>,
    pub(crate) device: Option<u32>,
}

impl Values {
    pub(crate) fn list(&self) -> [Option<u64>; 9] {
        [
            self.requested,
            self.total,
            self.free,
            self.allocated,
            self.reserved,
            self.unallocated,
            self.allowed,
            self.private,
            self.process,
        ]
    }
}

/// A message: its variant, its text and its values.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) variant: &'static str,
    pub(crate) class: &'static str,
    pub(crate) body: String,
    pub(crate) values: Values,
    pub(crate) others: Vec<(u64, u64)>,
}

impl Text {
    pub(crate) fn raised(&self) -> String {
        format!("{}: {}", self.class, self.body)
    }
}

/// `format_size` of PyTorch.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=1024 => format!("{bytes} bytes"),
        1025..=0x10_0000 => format!("{:.2} KiB", bytes as f64 / 1024.0),
        0x10_0001..=0x4000_0000 => format!("{:.2} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

const URL: &str = "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

/// One message of every variant that has figures, with figures drawn from `seed`.
#[allow(clippy::too_many_lines, reason = "a table of texts")]
pub(crate) fn with_figures(seed: &mut Seeded) -> Vec<Text> {
    let mut any = |limit: u64| (seed.below(usize::MAX) as u64) >> seed.below(30) as u32 & (limit - 1);
    let (requested, total, free) = (any(1 << 36), any(1 << 38), any(1 << 37));
    let (allocated, unallocated, allowed) = (any(1 << 38), any(1 << 36), any(1 << 38));
    let (private, process) = (any(1 << 36) | 1, any(1 << 38));
    let device = any(16) as u32;
    let others: Vec<(u64, u64)> = (0..any(4)).map(|_| (any(1 << 22), any(1 << 36))).collect();
    let reserved = allocated + unallocated;
    let old = Values {
        requested: Some(requested),
        total: Some(total),
        free: Some(free),
        allocated: Some(allocated),
        reserved: Some(reserved),
        unallocated: Some(unallocated),
        device: Some(device),
        ..Values::default()
    };
    let asked = format!("Tried to allocate {}", size(requested));
    let brackets = |limit: &str, last: &str| {
        format!(
            "CUDA out of memory. {asked} (GPU {device}; {} total capacity; {} already allocated; {} free; {limit}{last})",
            size(total),
            size(allocated),
            size(free)
        )
    };
    let in_total = format!("{} reserved in total by PyTorch", size(reserved));
    let limit = format!("{} allowed; ", size(allowed));
    let tip = " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
    let mut who = String::new();
    for (number, held) in &others {
        write!(who, "Process {number} has {} memory in use. ", size(*held)).unwrap();
    }
    let own = format!("Including non-PyTorch memory, this process has {} memory in use. ", size(process));
    let pools = format!("with {} allocated in private pools (e.g., CUDA Graphs), ", size(private));
    let sentences = |name: &str, spelling: &str, middle: &str, pools: &str, end: &str| {
        format!(
            "{name} out of memory. {asked}. GPU {device} has a total {spelling} of {} of which {} is free. {middle}Of the allocated memory {} is allocated by PyTorch, {pools}and {} is reserved by PyTorch but unallocated.{end}",
            size(total),
            size(free),
            size(allocated),
            size(unallocated)
        )
    };
    let split = " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
    let expandable = |name: &str, link: &str| {
        format!(
            " If reserved but unallocated memory is large try setting {name}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  {link}"
        )
    };
    let with_process = Values { process: Some(process), ..old };
    let full = Values { allowed: Some(allowed), private: Some(private), ..with_process };
    let named = |variant, class, body, values| Text { variant, class, body, values, others: Vec::new() };
    let with_others = |text: Text| Text { others: others.clone(), ..text };
    let (runtime, middle, new) = ("RuntimeError", "torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError");
    let cuda = "PYTORCH_CUDA_ALLOC_CONF";
    let lines = format!(
        "Allocation on device {device} would exceed allowed memory. (out of memory)\nCurrently allocated     : {}\nRequested               : {}\nDevice limit            : {}\nFree (according to CUDA): {}\nPyTorch limit (set by user-supplied memory fraction)\n                        : {}",
        size(allocated),
        size(requested),
        size(total),
        size(free),
        size(allowed)
    );
    let of_lines = Values { allowed: Some(allowed), reserved: None, unallocated: None, ..old };
    vec![
        named("V1", runtime, brackets("", &format!("{} cached", size(unallocated))), old),
        named("V2", runtime, brackets("", &in_total), old),
        named("V2L", runtime, brackets(&limit, &in_total), Values { allowed: Some(allowed), ..old }),
        named("V3", middle, brackets("", &in_total) + tip, old),
        with_others(named(
            "V4",
            middle,
            sentences("CUDA", "capacty", &format!("{who}{own}"), "", split),
            with_process,
        )),
        with_others(named(
            "V5",
            middle,
            sentences("CUDA", "capacity", &who, "", &expandable(cuda, URL)),
            old,
        )),
        with_others(named(
            "V6",
            new,
            sentences("CUDA", "capacity", &format!("{who}{own}{limit}"), &pools, &expandable(cuda, URL)),
            full,
        )),
        with_others(named(
            "V7",
            new,
            sentences(
                "CUDA",
                "capacity",
                &format!("{who}{own}{limit}"),
                &pools,
                &expandable("PYTORCH_ALLOC_CONF", URL),
            ),
            full,
        )),
        named("V8", new, lines, of_lines),
        named(
            "V9",
            new,
            sentences("HIP", "capacity", "", "", &expandable("PYTORCH_HIP_ALLOC_CONF", URL)),
            old,
        ),
        named(
            "V9",
            new,
            sentences(
                "XPU",
                "capacity",
                &limit,
                "",
                " Please use `empty_cache` to release all unoccupied cached memory.",
            ),
            Values { allowed: Some(allowed), ..old },
        ),
    ]
}

/// Messages that have no figures.
pub(crate) fn without_figures() -> Vec<Text> {
    let named = |variant, class, body: &str| Text {
        variant,
        class,
        body: body.to_owned(),
        values: Values::default(),
        others: Vec::new(),
    };
    vec![
        named(
            "V0",
            "RuntimeError",
            "cuda runtime error (2) : out of memory at /b/THC/generic/THCStorage.cu:66",
        ),
        named(
            "V0",
            "x",
            "THCudaCheck FAIL file=/b/THC/generic/THCStorage.cu line=66 error=2 : out of memory",
        ),
        named("V10", "torch.AcceleratorError", "CUDA error: out of memory"),
        named("V10", "RuntimeError", "CUDA driver error: out of memory"),
        named("V10", "RuntimeError", "HIP error: out of memory"),
        named(
            "V10",
            "RuntimeError",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ),
        named("V10", "RuntimeError", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        named("V10", "x", "node7:41:97 [2] include/alloc.h:320 NCCL WARN Cuda failure 2 'out of memory'"),
        named("V10", "x", "[2] misc/strongstream.cc:53 NCCL WARN Cuda failure 'out of memory'"),
        named(
            "V10",
            "RuntimeError",
            "!block->expandable_segment_ INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":2525, please report a bug to PyTorch.",
        ),
        named(
            "V10",
            "RuntimeError",
            "!handles_.at(i) INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":430, please report a bug to PyTorch.",
        ),
        named(
            "V10",
            "RuntimeError",
            "NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/opt/pytorch/c10/cuda/CUDACachingAllocator.cpp\":1131, please report a bug to PyTorch.",
        ),
    ]
}

/// Breaks `text` at blanks, so that no line is longer than `width` if it can be helped.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + word.len() > width {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used = word.rsplit('\n').next().unwrap_or(word).len() + if word.contains('\n') { 0 } else { used };
    }
    out
}

/// Breaks `text` as a terminal does: after every `width` characters.
pub(crate) fn cut_to_width(text: &str, width: usize) -> String {
    let lines: Vec<String> = text
        .lines()
        .flat_map(|line| {
            line.as_bytes()
                .chunks(width)
                .map(|part| String::from_utf8_lossy(part).into_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    lines.join("\n")
}

/// `text` with `prefix(line number)` in front of every line.
pub(crate) fn prefixed(text: &str, prefix: impl Fn(usize) -> String) -> String {
    let lines: Vec<_> =
        text.lines().enumerate().map(|(number, line)| format!("{}{line}", prefix(number))).collect();
    lines.join("\n")
}

/// Several of each, and those without figures.
pub(crate) fn all_texts() -> Vec<Text> {
    let mut seed = Seeded(7);
    let mut texts: Vec<Text> = (0..4).flat_map(|_| with_figures(&mut seed)).collect();
    texts.extend(without_figures());
    texts
}
