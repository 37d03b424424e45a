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
        self._visited = {}  # id: (node, its root); holds the nodes, so that their ids stay theirs
        self._starts, self._inside = {}, {}
        #: Bytes that the graph of a tensor (by id) keeps besides what is owned.
        self.retained = {}
        #: (device, address): (bytes, root tensor, name of the node, dtype, shape)
        self.saved = {}
        self.cut_off = False

    def walk(self, root):
        """Visits the graph behind `root` as far as it is new. A tensor inside another's graph belongs to that one."""
        first = root.grad_fn
        if id(first) in self._visited:
            self._inside[id(root)] = self._visited[id(first)][1]
            return
        self._starts[id(first)] = root
        self.retained[id(root)] = 0
        stack = [first]
        while stack:
            node = stack.pop()
            if node is None:
                continue
            if id(node) in self._visited:
                self._take_over(node, root)
                continue
            if len(self._visited) >= MOST_NODES or time.monotonic() > self._deadline:
                self.cut_off = True
                return
            self._visited[id(node)] = node, root
            self.retained[id(root)] += self._take_saved(node, root)
            stack.extend(pair[0] for pair in node.next_functions)

    def root_of(self, tensor):
        """The tensor whose graph `tensor` is a part of: itself, if of no other's."""
        for _ in range(1000):
            outer = self._inside.get(id(tensor))
            if outer is None or outer is tensor:
                break
            tensor = outer
        return tensor

    def is_inside(self, tensor):
        """Whether `tensor` is a part of another tensor's graph."""
        return self.root_of(tensor) is not tensor

    def _take_over(self, node, root):
        """`root`'s graph reaches one that was walked before."""
        inner = self._starts.get(id(node))
        if inner is None:
            return
        inner = self.root_of(inner)
        if inner is not self.root_of(root):
            self._inside[id(inner)] = root
            self.retained[id(root)] = self.retained.get(id(root), 0) + self.retained.get(id(inner), 0)

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
