"""The hooks of torch that the recorder uses, on top of `faketorch`: modules that run, a backward pass, optimizers.

What `memlab.modules` and `memlab.steps` ask for, with torch's order of calls. `log` notes the thread's metadata
whenever something would allocate: that is what the allocator writes on an event.
"""

import sys
import types

import faketorch


class Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


class Node:
    """A node of autograd's graph."""

    def __init__(self, job, following=()):
        self.metadata, self._before, self._job, self.following = {}, [], job, following

    def register_prehook(self, hook):
        self._before.append(hook)

    def run(self):
        for hook in self._before:
            hook(())
        self._job.allocate("backward")
        for node in self.following:
            node.run()


class Layer(faketorch.Module):
    """A module that calls its parts one after the other, then makes its output."""

    def __init__(self, job, fails=False, **parts):
        super().__init__(**parts)
        self._job, self._fails = job, fails

    def __call__(self, value):
        for hook in list(self._job.before_forward):
            hook(self, (value,))
        output = None
        try:
            for part in self._modules.values():
                value = part(value)
            self._job.allocate("forward")
            if self._fails:
                raise RuntimeError("the job's own")
            following = [value.grad_fn] if value.grad_fn is not None else []
            output = faketorch.Tensor(64, Node(self._job, following))
        finally:
            for hook in list(self._job.after_forward):
                hook(self, (value,), output)  # always_call: also if the module failed
        return output


class SGD(faketorch.Optimizer):
    def __init__(self, job, parameters):
        super().__init__(parameters, 64)
        self._job = job

    def step(self):
        for hook in list(self._job.before_step):
            hook(self, (), {})
        self._job.allocate("optimizer")
        for hook in list(self._job.after_step):
            hook(self, (), {})


class Job:
    """A fake torch with its hooks, and what was allocated under which label."""

    def __init__(self, monkeypatch):
        self.before_forward, self.after_forward, self.before_step, self.after_step = [], [], [], []
        self.metadata, self.log = "", []
        self.torch = faketorch.install(monkeypatch)
        self.torch.__version__ = "2.11.0"
        self.torch._C._cuda_setMemoryMetadata = self.set_metadata
        self.torch._C._cuda_getMemoryMetadata = lambda: self.metadata
        self.torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
        self.torch.is_grad_enabled = lambda: True
        self.torch.autograd = types.SimpleNamespace(_engine_run_backward=self._engine)
        self._modules(monkeypatch)

    def set_metadata(self, text):
        self.metadata = text

    def allocate(self, what):
        self.log.append((what, self.metadata))

    def backward(self, tensor):
        """What `loss.backward()` comes to; the engine leaves its thread's label as it is."""
        return self.torch.autograd._engine_run_backward((tensor,))

    def hooks(self):
        return len(self.before_forward) + len(self.after_forward) + len(self.before_step) + len(self.after_step)

    def _engine(self, tensors, *args, **kwargs):
        for tensor in tensors:
            tensor.grad_fn.run()
        return "gradients"

    def _modules(self, monkeypatch):
        module, optimizer = types.ModuleType("torch.nn.modules.module"), types.ModuleType("torch.optim.optimizer")
        module.register_module_forward_pre_hook = lambda hook: Handle(self.before_forward, hook)
        module.register_module_forward_hook = lambda hook, always_call: Handle(self.after_forward, hook)
        optimizer.register_optimizer_step_pre_hook = lambda hook: Handle(self.before_step, hook)
        optimizer.register_optimizer_step_post_hook = lambda hook: Handle(self.after_step, hook)
        packages = {name: types.ModuleType(name) for name in ("torch.nn", "torch.nn.modules", "torch.optim")}
        packages["torch.nn"].Module, packages["torch.optim"].Optimizer = faketorch.Module, faketorch.Optimizer
        packages["torch.nn.modules"].module, packages["torch.optim"].optimizer = module, optimizer
        self.torch.nn, self.torch.optim = packages["torch.nn"], packages["torch.optim"]
        for found in (*packages.values(), module, optimizer):
            monkeypatch.setitem(sys.modules, found.__name__, found)
