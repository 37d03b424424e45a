//! What one frame says about who made an allocation.
//!
//! Owns the names that are evidence: of PyTorch's own files, of functions that nobody but PyTorch has, and
//! of the handle pools behind cuBLAS and its like. A frame without a folder (`serialization.py`) is read as
//! if it lay in PyTorch: tools that shorten paths write so. Does not own how the frames of a stack are
//! weighed against each other (`makers`).

use super::Maker;
use super::user_code::torch_path;

/// Parts of the names of native functions and files that only handle pools and their workspaces have.
const HANDLE_POOLS: [&str; 9] = [
    "HandlePool",
    "BlasHandle",
    "BlasLtWorkspace",
    "BlasLtHandle",
    "WorkspaceForHandle",
    "getNewWorkspace",
    "CUDASparseHandle",
    "CUDASolverDnHandle",
    "getCudnnHandle",
];

/// Whether a native frame is of a handle pool, so that what is allocated below it is a library's workspace.
pub(super) fn is_handle_pool(file: &str, function: &str) -> bool {
    HANDLE_POOLS.iter().any(|part| function.contains(part) || file.contains(part))
}

/// What places parameters: `Module.to()` and its like.
const PLACING: [&str; 10] =
    ["_apply", "<lambda>", "convert", "to", "cuda", "to_empty", "half", "float", "double", "bfloat16"];

/// Files of `torch/optim` that optimize nothing themselves.
const NO_OPTIMIZERS: [&str; 2] = ["lr_scheduler", "swa_utils"];

/// Names of `torch/optim`'s files, for paths without their folders.
const OPTIMIZERS: [&str; 18] = [
    "_adafactor",
    "_muon",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "lbfgs",
    "lion",
    "nadam",
    "optimizer",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
];

/// A frame as text, with slashes forward.
#[derive(Clone, Copy)]
pub(super) struct FrameText<'a> {
    pub(super) file: &'a str,
    pub(super) function: &'a str,
    pub(super) is_native: bool,
}

impl<'a> FrameText<'a> {
    /// The path below PyTorch's package; of a file without a folder its name; else nothing.
    fn torch(self) -> &'a str {
        torch_path(self.file).unwrap_or(if self.file.contains('/') { "" } else { self.file })
    }

    fn has_no_folder(self) -> bool {
        !self.file.contains('/')
    }

    /// Who made what is allocated below this frame, wherever it stands on the stack.
    pub(super) fn maker(self) -> Maker {
        if self.is_native {
            return self.native_maker();
        }
        let found = [
            (Maker::Loader, self.is_loader()),
            (Maker::Reducer, self.is_reducer()),
            (Maker::Copy, self.is_copy()),
            (Maker::Optimizer, self.is_optimizer()),
            (Maker::Placement, self.is_placement()),
            (Maker::Cast, self.function.contains("cached_cast")),
            (Maker::Backward, self.is_backward()),
            (Maker::Compute, self.is_compute()),
        ];
        found.into_iter().find(|&(_, is)| is).map_or(Maker::Unknown, |(maker, _)| maker)
    }

    /// What the innermost Python frame says beyond that, by the name of its function.
    pub(super) fn innermost_maker(self) -> Maker {
        let function = self.function.to_ascii_lowercase();
        let speaks_of = |word: &str| function.contains(word);
        if speaks_of("bucket") || speaks_of("reducer") || self.file.ends_with("reducer.py") {
            Maker::Reducer
        } else if (speaks_of("backward") || speaks_of("grad"))
            && !speaks_of("forward")
            && !speaks_of("no_grad")
        {
            Maker::Backward
        } else if speaks_of("autocast") || (function == "to" && self.torch() != "storage.py") {
            Maker::Cast
        } else {
            Maker::Unknown
        }
    }

    fn native_maker(self) -> Maker {
        if is_handle_pool(self.file, self.function) {
            Maker::Workspace
        } else if ["initialize_bucket", "rebuild_bucket"].iter().any(|name| self.function.contains(name))
            || self.file.ends_with("reducer.cpp")
        {
            Maker::Reducer
        } else {
            Maker::Unknown
        }
    }

    fn is_loader(self) -> bool {
        let (path, function) = (self.torch(), self.function);
        let reads = ["load", "restore", "serialize"].iter().any(|word| function.contains(word));
        let is_own_name = matches!(function, "persistent_load" | "restore_location" | "_legacy_load");
        let reads_safetensors = self.file.contains("safetensors/") && function.contains("load");
        let reads_shards =
            path.starts_with("distributed/checkpoint/") && (reads || function.contains("read"));
        (path == "serialization.py" && reads)
            || path == "_weights_only_unpickler.py"
            || is_own_name
            || reads_safetensors
            || reads_shards
            || (self.has_no_folder() && path == "safetensors.py")
    }

    fn is_reducer(self) -> bool {
        let is_own_name = matches!(self.function, "_ddp_init_helper" | "_rebuild_buckets");
        is_own_name || (self.torch() == "nn/parallel/distributed.py" && self.function == "_pre_forward")
    }

    fn is_copy(self) -> bool {
        matches!(self.function, "deepcopy" | "__deepcopy__") || self.torch() == "optim/swa_utils.py"
    }

    fn is_optimizer(self) -> bool {
        let function = self.function;
        let is_own_name = matches!(function, "_init_group" | "profile_hook_step")
            || function.starts_with("_single_tensor_")
            || function.starts_with("_multi_tensor_");
        let stem = self.torch().rsplit('/').next().and_then(|name| name.strip_suffix(".py")).unwrap_or("");
        let is_file = if self.torch().starts_with("optim/") {
            !NO_OPTIMIZERS.contains(&stem)
        } else {
            self.has_no_folder() && OPTIMIZERS.contains(&stem)
        };
        let steps = matches!(function, "step" | "wrapper" | "_use_grad" | "_init_state" | "init_state")
            || function.starts_with("_fused_")
            || function == stem;
        is_own_name || (is_file && steps)
    }

    fn is_placement(self) -> bool {
        let path = self.torch();
        (path == "nn/modules/module.py" && PLACING.contains(&self.function))
            || (path.starts_with("nn/modules/") && matches!(self.function, "__init__" | "reset_parameters"))
            || path == "nn/init.py"
    }

    fn is_backward(self) -> bool {
        let function = self.function;
        match self.torch() {
            "autograd/__init__.py" => matches!(function, "backward" | "grad" | "_make_grads"),
            "autograd/graph.py" => function == "_engine_run_backward",
            "_tensor.py" => function == "backward",
            _ => false,
        }
    }

    fn is_compute(self) -> bool {
        let path = self.torch();
        let is_layer = path.starts_with("nn/modules/")
            && !matches!(path, "nn/modules/module.py" | "nn/modules/container.py")
            && self.function.contains("forward");
        let is_short = self.has_no_folder()
            && matches!(path, "linear.py" | "conv.py" | "functional.py")
            && ["forward", "linear", "conv"].iter().any(|word| self.function.contains(word));
        is_layer || is_short || path == "nn/functional.py"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/";

    fn maker(file: &str, function: &str) -> Maker {
        FrameText { file, function, is_native: false }.maker()
    }

    fn native(file: &str, function: &str) -> Maker {
        FrameText { file, function, is_native: true }.maker()
    }

    #[test]
    fn files_of_pytorch_are_known_with_and_without_their_folders() {
        for (path, function, expected) in [
            ("torch/serialization.py", "_load", Maker::Loader),
            ("torch/serialization.py", "default_restore_location", Maker::Loader),
            ("torch/serialization.py", "save", Maker::Unknown),
            ("torch/_weights_only_unpickler.py", "load", Maker::Loader),
            ("safetensors/torch.py", "load_file", Maker::Loader),
            ("torch/distributed/checkpoint/filesystem.py", "read_data", Maker::Loader),
            ("torch/nn/parallel/distributed.py", "_ddp_init_helper", Maker::Reducer),
            ("torch/nn/parallel/distributed.py", "forward", Maker::Unknown),
            ("torch/optim/adam.py", "_init_group", Maker::Optimizer),
            ("torch/optim/optimizer.py", "wrapper", Maker::Optimizer),
            ("torch/optim/optimizer.py", "load_state_dict", Maker::Unknown),
            ("torch/optim/lr_scheduler.py", "step", Maker::Unknown),
            ("torch/optim/swa_utils.py", "__init__", Maker::Copy),
            ("torch/nn/modules/module.py", "_apply", Maker::Placement),
            ("torch/nn/modules/linear.py", "__init__", Maker::Placement),
            ("torch/nn/modules/linear.py", "forward", Maker::Compute),
            ("torch/nn/modules/module.py", "_call_impl", Maker::Unknown),
            ("torch/autograd/__init__.py", "_make_grads", Maker::Backward),
        ] {
            assert_eq!(maker(&format!("{SITE}{path}"), function), expected, "{path} {function}");
        }
        assert_eq!(maker("serialization.py", "load"), Maker::Loader);
        assert_eq!(maker("adam.py", "_init_group"), Maker::Optimizer);
        assert_eq!(maker("optimizer.py", "load_state_dict"), Maker::Unknown);
    }

    #[test]
    fn code_of_the_users_own_is_no_evidence() {
        for (file, function) in [
            ("/home/me/train.py", "step"),
            ("/home/me/project/optim/adam.py", "step"),
            ("/home/me/serialization.py", "load"),
            ("train.py", "step"),
            ("/home/me/module.py", "to"),
        ] {
            assert_eq!(maker(file, function), Maker::Unknown, "{file} {function}");
        }
    }

    #[test]
    fn handle_pools_are_known_by_their_native_frames_only() {
        assert_eq!(native("CublasHandlePool.cpp", "getCurrentCUDABlasHandle"), Maker::Workspace);
        assert_eq!(native("", "at::cuda::setWorkspaceForHandle(cublasContext*, ...)"), Maker::Workspace);
        assert_eq!(native("??", "at::cuda::getCUDABlasLtWorkspace()"), Maker::Workspace);
        assert_eq!(native("reducer.cpp", "c10d::Reducer::initialize_buckets(...)"), Maker::Reducer);
        assert_eq!(native("Blas.cpp", "at::native::addmm_out_cuda_impl"), Maker::Unknown);
        assert_eq!(maker("/home/me/train.py", "getNewWorkspace"), Maker::Unknown);
    }
}
