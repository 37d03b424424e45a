"""The words for one reference: `.data`, `[12]`, `closure of f()`.

Owns how a holder refers to what it holds. Compares by identity only and calls no method that a class of the job
could have defined.
"""

import inspect
import sys
import types
from collections import deque
from itertools import islice

from .live import dict_of

_MOST_ITEMS = 100_000
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def label(holder, held):
    """How `holder` refers to `held`, as it is written behind the holder; empty if the step needs no word."""
    kind = type(holder)
    try:
        if issubclass(kind, dict):
            return _key(holder, held)
        if issubclass(kind, (list, tuple, deque)):
            return _index(holder, held)
        if issubclass(kind, (set, frozenset)):
            return "{...}"
        if kind is types.CellType or kind is types.TracebackType or issubclass(kind, BaseException):
            return ""
        if kind is types.FunctionType:
            return _of_function(holder, held)
        if kind is types.MethodType:
            return ".__self__" if holder.__self__ is held else ".__func__"
        if kind is types.FrameType:
            return _local(holder, held)
        if kind in _SUSPENDED:
            return _local_of_suspended(holder, held)
        return attribute(holder, held)
    except Exception:
        return f".<{kind.__name__}>"


def attribute(holder, held):
    """`.name` of an instance's attribute that is `held`; empty if `held` is its `__dict__`."""
    own = dict_of(holder)
    if own is held:
        return ""
    for name, value in list(own.items()):
        if value is held:
            return f".{name}"
    for cls in type.__dict__["__mro__"].__get__(type(holder)):
        for name, member in list(vars(cls).items()):
            if type(member) is types.MemberDescriptorType and _slot(member, holder) is held:
                return f".{name}"
    return f".<{type(holder).__name__}>"


def _slot(member, holder):
    try:
        return member.__get__(holder)
    except AttributeError:
        return None


def _key(holder, held):
    for key, value in islice(dict.items(holder), _MOST_ITEMS):
        if value is held:
            return f"[{_text_of_key(key)}]"
    return "[a key]"


def _index(holder, held):
    items = holder if type(holder) is deque else items_of(holder)
    for index, value in enumerate(islice(items, _MOST_ITEMS)):
        if value is held:
            return f"[{index}]"
    return "[...]"


def items_of(holder):
    """Iterates a list or tuple without a subclass's own `__iter__`."""
    base = list if issubclass(type(holder), list) else tuple if issubclass(type(holder), tuple) else deque
    return base.__iter__(holder)


def _text_of_key(key):
    if type(key) is str:
        return repr(key if len(key) <= 60 else key[:57] + "...")
    if type(key) in (int, bool, float, type(None)):
        return repr(key)
    if type(key) is tuple and len(key) <= 4 and all(type(part) in (int, str) for part in key):
        return repr(key)[:60]
    return f"<{type(key).__name__}>"


def _of_function(function, held):
    if function.__closure__ is held:
        return ""
    return ".__defaults__" if function.__defaults__ is held else attribute(function, held)


def _local(frame, held):
    return f"local {_name_in(frame, held)} in {frame.f_code.co_name}()"


def _local_of_suspended(holder, held):
    frame = next((getattr(holder, name) for name in ("gi_frame", "cr_frame", "ag_frame") if hasattr(holder, name)), None)
    return "" if frame is None or frame is held else f"local {_name_in(frame, held)}"


def _name_in(frame, held):
    """Name of the local that is `held`, leaving no copy of the locals behind in the frame."""
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return next((name for name, value in found.items() if value is held), "?")
