"""The running module's name as the allocator's user metadata, in the forward and in the backward pass.

Owns the global module hooks. Forward: set on entry, the caller's restored on exit. Backward: the node that made a
module's output sets the module's label in autograd's thread when it runs, the node that made its input sets that
of whoever called the module. Metadata is the calling thread's own, so threads do not disturb one another.

The text is `memlab:PHASE:MODULE`, as docs/trace-format.md says.
"""

import threading
import weakref

from . import warn
from .names import NAMES

_FORWARD, _BACKWARD = "memlab:forward:", "memlab:backward:"
#: How often modules without a name make memlab look through all live objects.
_MOST_LOOKS = 50
_MOST_INPUTS = 8

_hooks = None  # the one installed; module-level functions, because torch.compile looks into them
_is_compiling = None


def install(torch, steps):
    """Starts labelling. False if this torch has no user metadata (before 2.10) or lacks the hooks."""
    global _hooks, _is_compiling
    set_metadata = getattr(torch._C, "_cuda_setMemoryMetadata", None)
    if set_metadata is None:
        warn.warn("no-metadata", f"PyTorch {torch.__version__} cannot label allocations (2.10 can): events carry no module names")
        return False
    _is_compiling = torch.compiler.is_compiling
    _hooks = _Hooks(torch, set_metadata, steps)
    return True


def remove():
    """Stops labelling."""
    global _hooks
    if _hooks is not None:
        _hooks.remove()
        _hooks = None


def metadata_of(torch):
    """The function that sets the calling thread's metadata, or None."""
    return getattr(torch._C, "_cuda_setMemoryMetadata", None)


def _before_forward(module, args):
    if _is_compiling():
        return
    hooks = _hooks
    if hooks is not None:
        hooks.before(module, args)


def _after_forward(module, args, output):
    if _is_compiling():
        return
    hooks = _hooks
    if hooks is not None:
        hooks.after(module, output)


class _Hooks:
    def __init__(self, torch, set_metadata, steps):
        from torch.nn.modules import module

        self._tensor, self._grad_enabled = torch.Tensor, torch.is_grad_enabled
        self._set, self._steps = set_metadata, steps
        self._get = getattr(torch._C, "_cuda_getMemoryMetadata", lambda: "")
        self._local, self._labels, self._looks = threading.local(), {}, 0
        self._outside = _Label("", set_metadata, None)
        self._handles = [
            module.register_module_forward_pre_hook(_before_forward),
            module.register_module_forward_hook(_after_forward, always_call=True),
        ]

    def remove(self):
        for handle in self._handles:
            handle.remove()

    def before(self, module, args):
        try:
            stack = self._local.stack
        except AttributeError:
            stack = self._local.stack = []
        try:
            label = self._labels.get(id(module))
            if label is None or label.module() is not module:
                label = self._new_label(module)
            if not stack:
                caller = self._enter_outermost()
            else:
                caller = stack[-1][1]
            stack.append((module, label, caller))
            if self._grad_enabled():
                self._label_inputs(args, caller)
            self._set(label.forward)
        except Exception as error:
            warn.warn("module-hook", f"module names stop here: {type(error).__name__}: {error}")
            remove()

    def after(self, module, output):
        stack = getattr(self._local, "stack", None)
        try:
            while stack:
                inner, label, caller = stack.pop()
                if inner is module:
                    self._set(caller.forward)
                    if output is not None and self._grad_enabled():
                        self._label_outputs(output, label, 0)
                    if not stack:
                        self._leave_outermost()
                    return
        except Exception as error:
            warn.warn("module-hook", f"module names stop here: {type(error).__name__}: {error}")
            remove()

    def _enter_outermost(self):
        """A root is called: by the training loop, or by a recomputation in the backward pass."""
        before = self._get()
        if self._steps is not None and self._steps.phase != "backward":
            self._steps.enter("forward")
        return _Label.restoring("" if before.startswith("memlab:optimizer:") else before, self._outside)

    def _leave_outermost(self):
        if self._steps is not None and self._steps.phase == "forward" and not self._grad_enabled():
            self._steps.leave()

    def _new_label(self, module):
        name = NAMES.of(module)
        if name is None and self._looks < _MOST_LOOKS:
            self._looks += 1
            from .naming import name_live_modules

            name_live_modules()
            name = NAMES.of(module)
        if len(self._labels) > 100_000:
            self._labels = {key: label for key, label in self._labels.items() if label.module() is not None}
        label = self._labels[id(module)] = _Label(name or type(module).__name__, self._set, module)
        return label

    def _label_inputs(self, args, caller):
        for value in args[:_MOST_INPUTS]:
            if isinstance_of_tensor(value, self._tensor):
                _hook(value.grad_fn, caller)

    def _label_outputs(self, output, label, depth):
        if isinstance_of_tensor(output, self._tensor):
            _hook(output.grad_fn, label)
        elif depth < 3:
            values = output.values() if isinstance(output, dict) else output if isinstance(output, (tuple, list)) else ()
            for value in list(values)[: 4 * _MOST_INPUTS]:
                self._label_outputs(value, label, depth + 1)


class _Label:
    """A module's texts, and the hook that its nodes run. The hook is one object for all calls of the module."""

    __slots__ = ("forward", "module", "hook")

    def __init__(self, name, set_metadata, module):
        self.forward = _FORWARD + name if name else ""
        self.module = weakref.ref(module) if module is not None else None
        backward = _BACKWARD + name

        def hook(gradients):
            set_metadata(backward)

        self.hook = hook

    @classmethod
    def restoring(cls, text, outside):
        """The label of a caller outside of all modules, whose own metadata was `text`."""
        label = cls.__new__(cls)
        label.forward, label.module, label.hook = text, None, outside.hook
        return label


def isinstance_of_tensor(value, tensor):
    """Whether `value` is a tensor by its type: proxies of tracers are not."""
    return issubclass(type(value), tensor)


def _hook(node, label):
    """The first label of a node stays: the innermost module that made it."""
    if node is not None:
        known = node.metadata
        if "memlab" not in known:
            known["memlab"] = True
            node.register_prehook(label.hook)
