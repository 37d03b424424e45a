"""Just enough of torch for a census: tensors with storages, modules, optimizers, autograd nodes.

Only what `memlab.live`, `census`, `graph` and `holders` ask for. `install` puts it in `sys.modules`.
"""

import contextlib
import itertools
import sys
import types

_addresses = itertools.count(0x7000_0000_0000, 1 << 21)


class Storage:
    def __init__(self, size):
        self._address, self._size = next(_addresses), size

    def data_ptr(self):
        return self._address

    def nbytes(self):
        return self._size


class Tensor:
    is_cuda, dtype = True, "fake.float32"

    def __init__(self, size, grad_fn=None, storage=None):
        self._storage, self.shape = storage or Storage(size), (size // 4,)
        self.grad_fn, self.grad = grad_fn, None
        self.is_leaf = self.requires_grad = grad_fn is None

    def untyped_storage(self):
        return self._storage

    def get_device(self):
        return 0


class Saved:
    unpack_hook = None

    def __init__(self, data):
        self.data = data


# `graph` looks for a property of the class, as torch's has.
Saved.data = property(lambda self: self.__dict__["data"], lambda self, value: self.__dict__.__setitem__("data", value))


class MulBackward0:
    _raw_saved_self = None

    def __init__(self, saved, following=()):
        self._raw_saved_self = Saved(saved)
        self.next_functions = tuple((node, 0) for node in following)


class Module:
    def __init__(self, **parts):
        self._modules = {name: part for name, part in parts.items() if isinstance(part, Module)}
        self._parameters = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
        self._buffers = {}

    def register_forward_hook(self):
        pass


class Optimizer:
    def __init__(self, parameters, size):
        self.state = {parameter: {"exp_avg": Tensor(size), "step": 3} for parameter in parameters}


def install(monkeypatch):
    torch = types.ModuleType("torch")
    torch.Tensor, torch.no_grad = Tensor, contextlib.nullcontext
    torch.nn, torch.optim = types.SimpleNamespace(Module=Module), types.SimpleNamespace(Optimizer=Optimizer)
    torch._C = types.SimpleNamespace(DisableTorchFunctionSubclass=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch
