"""What autograd graphs keep alive: tensors that nodes saved for the backward pass.

Owns the walk over `grad_fn.next_functions`. A saved tensor that has an unpack hook (checkpointing, offloading) is
never unpacked, for that would run the user's code. Bounded in nodes and time.
"""

import time

MOST_NODES = 50_000


class Graphs:
    """Storages saved in the graphs of tensors. `saved` maps (device, address) to the tensor whose graph holds it."""

    def __init__(self, storage_of, owned, deadline):
        self._storage_of, self._owned, self._deadline = storage_of, owned, deadline
        self._visited = {}  # holds the nodes, so that their ids stay theirs
        #: (device, address): (bytes, root tensor, name of the node, dtype, shape)
        self.saved = {}
        self.cut_off = False

    def walk(self, root):
        """Visits the graph behind `root` as far as it is new; returns the bytes that it saves."""
        total = 0
        stack = [root.grad_fn]
        while stack:
            node = stack.pop()
            if node is None or id(node) in self._visited:
                continue
            if len(self._visited) >= MOST_NODES or time.monotonic() > self._deadline:
                self.cut_off = True
                break
            self._visited[id(node)] = node
            total += self._take_saved(node, root)
            stack.extend(pair[0] for pair in node.next_functions)
        return total

    def _take_saved(self, node, root):
        total = 0
        for name in _raw_names(type(node)):
            try:
                raw = getattr(node, name)
            except Exception:  # freed by a backward pass
                return total
            for saved in raw if isinstance(raw, (list, tuple)) else (raw,):
                tensor = _unpacked(saved)
                where = None if tensor is None else self._storage_of(tensor)
                if where is not None and where[:2] not in self.saved and where[:2] not in self._owned:
                    described = str(tensor.dtype), tuple(map(int, tensor.shape))
                    self.saved[where[:2]] = (where[2], root, type(node).__name__, *described)
                    total += where[2]
        return total


_names = {}


def _raw_names(cls):
    found = _names.get(cls)
    if found is None:
        found = _names[cls] = [name for name in dir(cls) if name.startswith("_raw_saved_")]
        if "saved_tensors" in dir(cls) and "_raw_saved_tensors" in dir(cls):
            found = _names[cls] = ["_raw_saved_tensors"]
    return found


def _unpacked(saved):
    """The tensor in a SavedTensor, if it can be had without running anybody's hook."""
    try:
        if not hasattr(type(saved), "data") or saved.unpack_hook is not None:
            return None
        return saved.data
    except Exception:
        return None
