"""Qualified names of modules, as people write them: `blocks.3.mlp.up`.

Owns which modules are roots, and that a module keeps its name for the whole recording. The first root with
parameters gives plain names; other roots put their class's name in front. Wrappers (DDP, FSDP, compile,
checkpointing) leave no trace in a name.
"""

import weakref

from .live import dict_of

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_UNWRAP_FIRST = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


class Names:
    """Names given so far, by module."""

    def __init__(self):
        self._known = {}  # id: (weak reference, name)
        self._prefixes = {}  # of the roots that have one; id of the root when it was named
        self._has_plain_root = False

    def of(self, module):
        """The name of `module`, or None."""
        entry = self._known.get(id(module))
        if entry is None or entry[0]() is not module:
            return None
        return entry[1]

    def name_all(self, modules):
        """Names every module of `modules` that has no name yet."""
        children = {id(child) for module in modules for child in children_of(module).values()}
        roots = [module for module in modules if id(module) not in children]
        roots.sort(key=_parameters_below, reverse=True)
        for root in roots:
            self._name_tree(root)

    def _name_tree(self, root):
        tree = list(walk(root))
        if self.of(root) is None:
            prefix = self._prefix(root, any(dict_of(module).get("_parameters") for _, module in tree))
        else:
            prefix = next((name for name, key in self._prefixes.items() if key == id(root)), "")
        for path, module in tree:
            if self.of(module) is None:
                name = ".".join(part for part in (prefix, cleaned(root, path)) if part)
                self._remember(module, name or type(root).__name__)

    def _prefix(self, root, has_parameters):
        """Empty for the first real root."""
        if has_parameters and not self._has_plain_root:
            self._has_plain_root = True
            return ""
        base = prefix = type(root).__name__
        number = 1
        while prefix in self._prefixes:
            number += 1
            prefix = f"{base}#{number}"
        self._prefixes[prefix] = id(root)
        return prefix

    def _remember(self, module, name):
        if len(self._known) > 200_000:
            self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
        self._known[id(module)] = (weakref.ref(module), name)


def children_of(module):
    """Direct submodules by name."""
    found = dict_of(module).get("_modules") or {}
    return {name: child for name, child in list(found.items()) if child is not None}


def walk(root):
    """(path, module) of every module below `root`, itself included, each once."""
    seen, stack = {id(root)}, [("", root)]
    while stack:
        path, module = stack.pop()
        yield path, module
        for name, child in reversed(list(children_of(module).items())):
            if id(child) not in seen:
                seen.add(id(child))
                stack.append((f"{path}.{name}" if path else str(name), child))


def cleaned(root, path):
    """`path` without the names that wrappers add."""
    parts = [part for part in path.split(".") if part not in _WRAPPERS]
    if parts and parts[0] == "module" and type(root).__name__ in _UNWRAP_FIRST:
        parts = parts[1:]
    return ".".join(parts)


def _parameters_below(root):
    return sum(len(dict_of(module).get("_parameters") or ()) for _, module in walk(root))


#: The names of this process: a module keeps its name from one recording to the next.
NAMES = Names()
