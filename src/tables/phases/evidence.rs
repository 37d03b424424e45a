//! What one stack says about what the process was doing, by frames of PyTorch's own.
//!
//! Owns the list of those frames. Names of files of the user's say nothing; the names that PyTorch's protocols
//! prescribe (`forward`, `backward`, `load_state_dict`) do, wherever they are.

use crate::model::{FrameId, Trace};

use super::super::StackFacts;
use super::super::maker_frames::is_handle_pool;
use super::super::user_code::torch_path;

/// What a stack says of its moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tables) enum Says {
    /// It has Python frames, and none of them tells.
    #[default]
    Nothing,
    /// It has no Python frames: nothing was recorded, or a thread without Python did it.
    NoFrames,
    /// A module is being called.
    Forward,
    /// The calling thread starts the autograd engine.
    OpensBackward,
    /// The autograd engine, or code around it, is at work.
    Backward,
    /// An optimizer steps, or prepares its step.
    Optimizer,
    /// A model, an optimizer or a checkpoint is put in place.
    Loading,
}

/// What a stack says of the block that it allocates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tables) enum Origin {
    /// Nothing.
    #[default]
    Unknown,
    /// It is a library's workspace: native frames of a handle pool.
    Workspace,
    /// It is a loaded state that an optimizer puts in place.
    LoadedState,
    /// It is an optimizer's state: what PyTorch's optimizers make in `_init_group`.
    MadeState,
    /// It is a module's tensor that is moved or made (`Module.to`, `Module.cuda`).
    Module,
}

/// What a stack says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tables) struct StackEvidence {
    /// Of its moment.
    pub(in crate::tables) says: Says,
    /// Of what it allocates.
    pub(in crate::tables) origin: Origin,
}

/// What every stack of `trace` says, by stack number; `facts` are those of the same stacks.
pub(super) fn of_stacks(trace: &Trace, facts: &[StackFacts]) -> Vec<StackEvidence> {
    let roles: Vec<u16> = (0..trace.frames.len()).map(|id| roles_of(trace, FrameId(id as u32))).collect();
    let role = |id: &FrameId| roles.get(id.0 as usize).copied().unwrap_or(0);
    let stacks = trace.stacks.iter().zip(facts);
    stacks.map(|(frames, facts)| evidence(frames.iter().map(role), facts)).collect()
}

/// `roles` come innermost first.
fn evidence(roles: impl Iterator<Item = u16> + Clone, facts: &StackFacts) -> StackEvidence {
    let all = roles.clone().fold(0, |all, role| all | role);
    let has = |role: u16| all & role != 0;
    let says = if facts.is_engine || has(ENGINE) {
        Says::Backward
    } else if facts.opens_pass {
        Says::OpensBackward
    } else if !facts.has_python {
        Says::NoFrames
    } else {
        innermost(roles, has(NO_STEP)).unwrap_or(if has(LOADING) { Says::Loading } else { Says::Nothing })
    };
    let origins = [
        (WORKSPACE, Origin::Workspace),
        (LOADED_STATE, Origin::LoadedState),
        (STATE, Origin::MadeState),
        (MODULE_TENSOR, Origin::Module),
    ];
    let origin =
        origins.into_iter().find(|&(role, _)| has(role)).map_or(Origin::Unknown, |(_, origin)| origin);
    StackEvidence { says, origin }
}

/// Of frames that tell, the innermost counts: an optimizer may call a closure that calls a module.
fn innermost(mut roles: impl Iterator<Item = u16>, is_no_step: bool) -> Option<Says> {
    roles.find_map(|role| match role {
        role if role & BACKWARD != 0 => Some(Says::Backward),
        role if role & OPTIMIZER != 0 && !is_no_step => Some(Says::Optimizer),
        role if role & CALL != 0 => Some(Says::Forward),
        _ => None,
    })
}

// What a frame is, as bits: a stack is the union of its frames.
const ENGINE: u16 = 1;
const BACKWARD: u16 = 1 << 1;
const OPTIMIZER: u16 = 1 << 2;
/// A method of an optimizer that is no step.
const NO_STEP: u16 = 1 << 3;
const CALL: u16 = 1 << 4;
const LOADING: u16 = 1 << 5;
const MODULE_TENSOR: u16 = 1 << 6;
const LOADED_STATE: u16 = 1 << 7;
const WORKSPACE: u16 = 1 << 8;
const STATE: u16 = 1 << 9;

fn roles_of(trace: &Trace, id: FrameId) -> u16 {
    let frame = trace.frames.get(id);
    let file = trace.strings.get(frame.file).replace('\\', "/");
    let function = trace.strings.get(frame.function);
    named(&file, function)
        | torch_path(&file).map_or(0, |path| of_torch(path, function))
        | native(&file, function)
}

/// What a function's name says in whatever file it is: PyTorch calls it by this name.
fn named(file: &str, function: &str) -> u16 {
    match function {
        "backward" => BACKWARD,
        "forward" => CALL,
        "_init_group" => OPTIMIZER | STATE,
        "load_state_dict" if file.rsplit('/').next() == Some("optimizer.py") => LOADING | LOADED_STATE,
        "load_state_dict" | "from_pretrained" => LOADING,
        _ => 0,
    }
}

/// What a Python frame of PyTorch's says; `path` is below its package.
fn of_torch(path: &str, function: &str) -> u16 {
    match (path, function) {
        ("nn/modules/module.py", "_call_impl" | "_wrapped_call_impl") | ("nn/functional.py", _) => CALL,
        ("nn/modules/module.py", "_apply" | "cuda" | "to" | "to_empty")
        | ("nn/parameter.py", "__deepcopy__" | "materialize") => LOADING | MODULE_TENSOR,
        ("nn/init.py" | "serialization.py", _) => LOADING,
        ("nn/utils/clip_grad.py", _) => OPTIMIZER,
        ("amp/grad_scaler.py" | "cuda/amp/grad_scaler.py", name) => of_grad_scaler(name),
        (path, name) if path.starts_with("optim/") => of_optimizer(name),
        (path, "__init__" | "reset_parameters") if path.starts_with("nn/modules/") => LOADING,
        _ => 0,
    }
}

/// `scale` belongs to the loss, the rest to the step.
fn of_grad_scaler(function: &str) -> u16 {
    if matches!(function, "step" | "unscale_" | "_unscale_grads_" | "_maybe_opt_step" | "update") {
        OPTIMIZER
    } else {
        0
    }
}

fn of_optimizer(function: &str) -> u16 {
    match function {
        "load_state_dict" => NO_STEP | LOADING | LOADED_STATE,
        "zero_grad" | "state_dict" | "__init__" | "add_param_group" => NO_STEP,
        _ => OPTIMIZER,
    }
}

/// What native frames say, which a recording with `stacks="all"` has.
fn native(file: &str, function: &str) -> u16 {
    if function.contains("autograd::Engine") || function.contains("autograd::python::PythonEngine") {
        return ENGINE;
    }
    let is_python = file.rsplit('.').next() == Some("py");
    if !is_python && is_handle_pool(file, function) { WORKSPACE } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::super::{classify_frames, stack_facts};
    use super::*;
    use crate::model::TraceBuilder;

    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";

    fn says(frames: &[(&str, &str)]) -> StackEvidence {
        let paths: Vec<String> = frames.iter().map(|(file, _)| file.replace("T/", SITE)).collect();
        let stack: Vec<_> =
            paths.iter().zip(frames).map(|(path, (_, name))| (path.as_str(), 7, *name)).collect();
        let trace = TraceBuilder::new().stack(&stack).alloc(0, 512).build();
        let facts = stack_facts(&trace, &classify_frames(&trace));
        of_stacks(&trace, &facts)[trace.devices[0].events.stacks[0].0 as usize]
    }

    #[test]
    fn frames_of_pytorch_tell_the_phase() {
        let user = ("train.py", "step");
        for (frames, expected) in [
            (vec![("T/nn/functional.py", "relu"), user], Says::Forward),
            (vec![("T/nn/modules/module.py", "_call_impl"), user], Says::Forward),
            (vec![("model.py", "forward"), user], Says::Forward),
            (vec![("T/autograd/graph.py", "_engine_run_backward"), user], Says::OpensBackward),
            (vec![("T/_tensor.py", "backward"), user], Says::Backward),
            (vec![("mine.py", "backward"), ("T/autograd/function.py", "apply")], Says::Backward),
            (vec![("", "torch::autograd::Engine::evaluate_function(...)")], Says::Backward),
            (vec![("T/optim/optimizer.py", "wrapper"), user], Says::Optimizer),
            (vec![("T/nn/utils/clip_grad.py", "clip_grad_norm_"), user], Says::Optimizer),
            (vec![("T/optim/optimizer.py", "zero_grad"), user], Says::Nothing),
            (vec![("T/optim/optimizer.py", "load_state_dict"), user], Says::Loading),
            (vec![("T/nn/modules/module.py", "_apply"), user], Says::Loading),
            (vec![user], Says::Nothing),
            (vec![("", "c10::Foo()")], Says::NoFrames),
            (vec![], Says::NoFrames),
        ] {
            assert_eq!(says(&frames).says, expected, "{frames:?}");
        }
    }

    #[test]
    fn the_innermost_telling_frame_counts() {
        let closure = [("model.py", "forward"), ("train.py", "closure"), ("T/optim/lbfgs.py", "step")];
        assert_eq!(says(&closure).says, Says::Forward);
        let inside = [("T/optim/adam.py", "_init_group"), ("T/nn/modules/module.py", "_call_impl")];
        assert_eq!(says(&inside).says, Says::Optimizer);
    }

    #[test]
    fn a_file_of_the_users_called_like_pytorchs_says_nothing() {
        assert_eq!(says(&[("optim/adam.py", "step")]).says, Says::Nothing);
        assert_eq!(says(&[("clip_grad.py", "clip"), ("functional.py", "relu")]).says, Says::Nothing);
    }

    #[test]
    fn origins_are_told() {
        let pool = [("CublasHandlePool.cpp", "getCurrentCUDABlasHandle"), ("f.py", "linear")];
        assert_eq!(says(&pool).origin, Origin::Workspace);
        assert_eq!(says(&[("HandlePool.py", "getCurrentCUDABlasHandle")]).origin, Origin::Unknown);
        assert_eq!(
            says(&[("T/nn/modules/module.py", "_apply"), ("train.py", "main")]).origin,
            Origin::Module
        );
        assert_eq!(
            says(&[("optimizer.py", "load_state_dict"), ("a.py", "resume")]).origin,
            Origin::LoadedState
        );
        assert_eq!(says(&[("model.py", "load_state_dict")]).origin, Origin::Unknown);
        assert_eq!(says(&[("adam.py", "_init_group")]).origin, Origin::MadeState);
    }
}
