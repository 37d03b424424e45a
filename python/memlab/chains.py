"""Chains of references as text: `module train: CACHE.data[12]`, `reference cycle through Node.sibling`.

Owns the grammar of a holder's path. Gets chains from `holders`, words for single references from `edges`.
"""

import types

from .edges import label
from .live import dict_of
from .names import NAMES

_MOST_TEXT = 300
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def path_text(chain, roots):
    """The words of `chain`, which begins with a root and ends with the tensor."""
    root = chain[0]
    prefix, suffix = roots.of(root)
    steps = _steps(chain)
    hook = next((index for index, step in enumerate(steps) if step[1:].split("[")[0] in _HOOKS), None)
    if hook is not None:
        owner = next((_module_name(thing) for thing in chain if _module_name(thing)), "a module")
        return f"hook on {owner}: " + "".join(steps[hook + 1 :])[:_MOST_TEXT]
    text = "".join(steps)
    for index, step in enumerate(steps):
        if step.startswith("local ") and " in " in step:
            name, _, where = step.partition(" in ")
            text = "".join(steps[:index]) + name + "".join(steps[index + 1 :]) + " in " + where
    if prefix.startswith("module "):
        text = _first_name(text)
    text = text.lstrip(".") if prefix.endswith(": ") else text
    return _cut(prefix + text + suffix)


def cycle_text(tensors, parents):
    """The ring that holds one of `tensors`, if there is one and nothing else was found."""
    for tensor in tensors:
        for first in parents.get(id(tensor), ()):
            owner = _owner_of(first, parents)
            ring = next((ring for ring in (_ring(thing, parents) for thing in (first, *owner)) if ring), None)
            if ring:
                edges = _typed_edges(ring)
                held = _typed_edges([*owner, first, tensor])[-1:]
                through = ", ".join(dict.fromkeys(edges)) or type(first).__name__
                return _cut(f"reference cycle through {through}" + (f", holds {held[0]}" if held else ""))
    return None


def _steps(chain):
    """One text per reference. The `__dict__` of an instance is no step: its keys are attributes."""
    steps = []
    for index, (holder, held) in enumerate(zip(chain, chain[1:])):
        text = label(holder, held)
        owner = chain[index - 1] if index else None
        if type(holder) is dict and owner is not None and dict_of(owner) is holder:
            text = "." + _bare(text)
        elif type(owner) is types.FunctionType and owner.__closure__ is holder:
            text = "'s variable " + owner.__code__.co_freevars[int(_bare(text))]
        steps.append(text)
    return steps


def _first_name(text):
    """A module's globals are a dict: `['CACHE'].data` is `CACHE.data`."""
    if text.startswith("["):
        end = text.index("]")
        return _bare(text[: end + 1]) + text[end + 1 :]
    return text


def _bare(text):
    """`['name']` as `name`."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text.lstrip(".")
    return inner[1:-1] if inner[:1] in "'\"" else inner


def _module_name(thing):
    if not hasattr(type(thing), "register_forward_hook"):
        return None
    return NAMES.of(thing) or type(thing).__name__


def _ring(start, parents):
    """Things that refer to one another in a ring through `start`, each referring to the next; `start` is first and last."""
    queue, came_from = [start], {}
    for thing in queue:
        for parent in parents.get(id(thing), ()):
            if parent is start:
                ring = [start, thing] if thing is not start else [start]
                while ring[-1] is not start:
                    ring.append(came_from[id(ring[-1])])
                return ring if len(ring) > 1 else [start, start]
            if id(parent) not in came_from:
                came_from[id(parent)] = thing
                queue.append(parent)
    return None


def _owner_of(thing, parents):
    """The instance whose `__dict__` is `thing`, in a list, if it is known."""
    return [parent for parent in parents.get(id(thing), ()) if type(thing) is dict and dict_of(parent) is thing][:1]


def _typed_edges(ring):
    """`Type.attribute` for every reference of the ring that has a name."""
    edges = []
    for index, (holder, held) in enumerate(zip(ring, ring[1:])):
        text = label(holder, held)
        if type(holder) is dict:
            owner = ring[index - 1] if index else None
            if owner is not None and dict_of(owner) is holder:
                edges.append(f"{type(owner).__name__}.{_bare(text)}")
        elif text.startswith("."):
            edges.append(f"{type(holder).__name__}{text}")
        elif type(holder) is types.CellType:
            edges.append("closure")
    return edges


def _cut(text):
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."
