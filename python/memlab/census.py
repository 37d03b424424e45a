"""Names and kinds of the storages that are alive: parameters, buffers, gradients, optimizer state, others.

Owns the kinds and their order (a storage that is a parameter is never listed as something else). Works on a pass
of `live`; holds nothing afterwards.
"""

from itertools import islice

from .live import dict_of, local_part, storage_of

MOST_ROWS = 100_000


class Census:
    """Rows of (device, address, bytes, kind, name, dtype, shape, grad_fn), each storage once."""

    def __init__(self, live, names):
        self.rows, self._seen = [], set()
        #: Storages that have a known owner: parameters, buffers, gradients, optimizer state.
        self.owned = set()
        self._parameter_names = {}
        names.name_all(live.modules)
        self._modules(live.modules, names)
        self._gradients(live.tensors)
        self._optimizers(live.optimizers)
        self.owned = set(self._seen)
        self._others(live.tensors)

    def kind_counts(self):
        """Bytes by kind."""
        total = {}
        for row in self.rows:
            total[row[3]] = total.get(row[3], 0) + row[2]
        return total

    def add(self, tensor, kind, name, grad_fn=""):
        """Enters a tensor's storage, unless it is there."""
        where = storage_of(tensor)
        if where is None or where[:2] in self._seen or len(self.rows) >= MOST_ROWS:
            return
        self._seen.add(where[:2])
        try:
            dtype, shape = str(tensor.dtype), tuple(map(int, tensor.shape))
        except Exception:
            dtype, shape = "", ()
        self.rows.append((*where, kind, name, dtype, shape, grad_fn))

    def _modules(self, modules, names):
        for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for module in modules:
                found = dict_of(module).get(table) or {}
                owner = names.of(module) or type(module).__name__
                owner = "" if owner == type(module).__name__ else owner + "."
                for name, tensor in list(found.items()):
                    if tensor is not None:
                        self._parameter_names.setdefault(id(tensor), f"{owner}{name}")
                        self.add(local_part(tensor), kind, f"{owner}{name}")

    def _gradients(self, tensors):
        for tensor in tensors:
            try:
                grad = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
            except Exception:
                continue
            if grad is not None:
                self.add(local_part(grad), "gradient", self._parameter_names.get(id(tensor), "tensor") + ".grad")

    def _optimizers(self, optimizers):
        for optimizer in optimizers:
            for number, (parameter, state) in enumerate(list((dict_of(optimizer).get("state") or {}).items())):
                owner = self._parameter_names.get(id(parameter), f"{type(optimizer).__name__}.{number}")
                for path, tensor in _tensors_in(state):
                    self.add(local_part(tensor), "optimizer_state", f"{owner}.{path}")

    def _others(self, tensors):
        for tensor in tensors:
            try:
                grad_fn = tensor.grad_fn
            except Exception:
                grad_fn = None
            kind = "other" if grad_fn is None else "activation"
            self.add(tensor, kind, "", type(grad_fn).__name__ if grad_fn is not None else "")


def _tensors_in(state, path="", depth=0):
    """Tensors in an optimizer's state of one parameter, with the keys that lead there."""
    if hasattr(type(state), "untyped_storage"):
        yield path, state
    elif depth < 4 and isinstance(state, dict):
        for key, value in islice(list(state.items()), 1000):
            yield from _tensors_in(value, f"{path}.{key}" if path else str(key), depth + 1)
    elif depth < 4 and isinstance(state, (list, tuple)):
        for index, value in enumerate(islice(state, 1000)):
            yield from _tensors_in(value, f"{path}[{index}]", depth + 1)
