"""The live modules, optimizers and tensors of the process, as the garbage collector sees them.

Owns the pass over `gc.get_objects()`. Looks at types only, never at `__class__` or through a user's attribute
hooks, so that proxies and half-built objects are left alone. Never starts a collection.
"""

import gc

#: Tensors of tracers: to ask them for an address is an error or a warning.
_WITHOUT_MEMORY = ("FakeTensor", "FunctionalTensor")
_mro = type.__dict__["__mro__"].__get__


class Live:
    """What one pass found. Holds strong references: drop it soon."""

    def __init__(self, torch):
        self._bases = ((torch.Tensor, 0), (torch.nn.Module, 1), (torch.optim.Optimizer, 2))
        self._kinds = {}
        found = [], [], []
        kind_of = self._kind
        for thing in gc.get_objects():
            kind = kind_of(type(thing))
            if kind is not None:
                found[kind].append(thing)
        self.tensors, self.modules, self.optimizers = found
        _take_parameters_along(self)

    def _kind(self, cls):
        try:
            return self._kinds[cls]
        except KeyError:
            bases = _mro(cls)
            kind = next((kind for base, kind in self._bases if base in bases), None)
            self._kinds[cls] = kind
            return kind
        except TypeError:  # a metaclass without a hash
            return None

    def close(self):
        """Lets everything go."""
        self.tensors, self.modules, self.optimizers = [], [], []


def storage_of(tensor):
    """(device, address, bytes) of a CUDA tensor's storage; None for any other, and for what has no memory."""
    try:
        if type(tensor).__name__ in _WITHOUT_MEMORY or not tensor.is_cuda:
            return None
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not address:
            return None
        return tensor.get_device(), address, storage.nbytes()
    except Exception:  # meta and fake tensors, subclasses with ideas of their own
        return None


def local_part(tensor):
    """The part of a distributed tensor that lives here; other tensors as they are."""
    inner = getattr(tensor, "_local_tensor", None)
    return tensor if inner is None else inner


def is_memlabs(thing):
    """Whether an object is of a class of this package."""
    module = type(thing).__module__  # not always a str: some classes of extensions have a descriptor there
    return type(module) is str and module.startswith("memlab.")


def dict_of(thing):
    """`__dict__` without asking the object's own attribute hooks."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except Exception:
        return {}
    return found if type(found) is dict else {}


def _take_parameters_along(live):
    """Objects may be untracked by the collector; parameters are reachable through their modules anyway."""
    known = set(map(id, live.tensors))
    for module in live.modules:
        for table in ("_parameters", "_buffers"):
            for tensor in (dict_of(module).get(table) or {}).values():
                if tensor is not None and id(tensor) not in known:
                    known.add(id(tensor))
                    live.tensors.append(tensor)
