"""Where a chain of references may end: places that a person knows.

Owns the list of running frames with their locals, the dictionaries of imported modules, and the words for each
kind of root. Reads locals without leaving a copy behind that would keep them alive.
"""

import inspect
import os
import sys
import types

from .names import NAMES

_HERE = os.path.dirname(os.path.abspath(__file__))


class Roots:
    """The roots at one moment. Holds no object of the job: ids and texts only."""

    def __init__(self):
        self._modules = _module_dicts()
        #: id of a value: (local's name, function's name)
        self.locals = {}
        self.running = set()
        for frame in list(sys._current_frames().values()):
            while frame is not None:
                self.running.add(id(frame))
                if not is_ours(frame):
                    self._note_locals(frame)
                frame = frame.f_back

    def of(self, thing):
        """(prefix, suffix) around the path from `thing` on, if it is a root; else None."""
        key = id(thing)
        if key in self._modules:
            return f"module {self._modules[key]}: ", ""
        if isinstance_of(thing, BaseException):
            return f"traceback of {_article(type(thing).__name__)}: ", ""
        if isinstance_of(thing, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            return f"suspended {thing.__qualname__}(): ", ""
        if key in self.locals:
            name, function = self.locals[key]
            return f"local {name}", f" in {function}()"
        if isinstance_of(thing, type):
            return f"class {thing.__name__}: ", ""
        if hasattr(type(thing), "register_forward_hook"):
            return NAMES.of(thing) or type(thing).__name__, ""
        if type(thing).__name__.endswith("Backward") and hasattr(type(thing), "next_functions"):
            return f"autograd node {type(thing).__name__}: ", ""
        return None

    def is_module_dict(self, thing):
        """Whether `thing` is a module's dictionary."""
        return id(thing) in self._modules

    def _note_locals(self, frame):
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return  # a module's or a class's body: its names are the module's
        found = frame.f_locals
        for name, value in list(found.items()):
            self.locals.setdefault(id(value), (name, frame.f_code.co_name))
        if sys.version_info < (3, 13):
            found.clear()  # a copy that the frame keeps: without this, locals would outlive their `del`


def isinstance_of(thing, classes):
    """`isinstance` that asks the type only, not `__class__`."""
    return issubclass(type(thing), classes)


def is_ours(frame):
    """Whether a frame belongs to memlab."""
    return os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _HERE


def _module_dicts():
    names = {}
    for name, module in list(sys.modules.items()):
        if type(module) is types.ModuleType or issubclass(type(module), types.ModuleType):
            try:
                dictionary = types.ModuleType.__dict__["__dict__"].__get__(module)
            except Exception:
                continue
            if name == "__main__":
                file = dictionary.get("__file__")
                name = os.path.splitext(os.path.basename(file))[0] if isinstance(file, str) else name
                names[id(dictionary)] = name
            else:
                names.setdefault(id(dictionary), name)
    return names


def _article(name):
    return f"an {name}" if name[:1] in "AEIOU" else f"a {name}"
