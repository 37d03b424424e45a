"""Calls back when a module is imported, and imports nothing itself.

Owns one finder on `sys.meta_path`. A job sets environment variables before it imports torch; memlab must not get
there first.
"""

import sys

_waiting = {}


def when_imported(name, action):
    """Calls `action(module)` once `name` is imported: now, or right after its import."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        action(module)
        return
    _waiting.setdefault(name, []).append(action)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds nothing: lets the others find, and watches the module being loaded."""

    def find_spec(self, name, path=None, target=None):
        """A spec whose loader calls back, for the names that are waited for."""
        if name not in _waiting:
            return None
        actions = _waiting.pop(name)
        spec = _without_us(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            # The instance's attribute: only this load is watched.
            del spec.loader.exec_module
            execute(module)
            for action in actions:
                action(module)

        spec.loader.exec_module = exec_module
        return spec


def _without_us(name, path, target):
    for finder in sys.meta_path:
        if not isinstance(finder, _Finder):
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
    return None
