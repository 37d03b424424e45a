"""Who keeps a tensor alive: chains of Python references up to a root that a person knows.

Owns the search: level by level through `gc.get_referrers`, for many tensors at once, the largest first, bounded in
time. What lies beside a tensor in the same container is named without a search of its own. A tensor that nothing
but a ring of references holds is said to be in a cycle. Roots are `roots`', words are `edges`'.
"""

import gc
import time
import types

from .chains import cycle_text, path_text
from .edges import kind_iter
from .live import storage_of
from .roots import Roots, is_ours

_BATCH = 16
_MOST_TARGETS = 400
_DEPTH = 12
_FRONTIER = 48
_MOST_ROWS = 4_000
CUT_OFF = "(search cut off after {:g} s)"


class Search:
    """One search; `run` gives rows of (device, address, path)."""

    def __init__(self, census, graphs, seconds):
        self._census, self._graphs, self._seconds = census, graphs, seconds
        self._deadline = time.monotonic() + seconds
        self._paths = {}  # (device, address): text
        self._parents = {}  # id of a thing: things that refer to it
        self._keep = []  # so that ids stay valid while we work
        self._roots = None
        self.cut_off = False

    def run(self, tensors, retained):
        """`tensors` are all that nobody owns; `retained` says what the autograd graph of one keeps besides."""
        places, weights = {}, {}
        for tensor in tensors:
            where = storage_of(tensor)
            places.setdefault(where[:2], []).append(tensor)
            weights[where[:2]] = max(weights.get(where[:2], 0), where[2] + retained.get(id(tensor), 0))
        order = sorted(places, key=lambda where: (-weights[where], where))[:_MOST_TARGETS]
        self._roots = Roots()
        self._ours = _containers_of(self, self._census, self._graphs, places, tensors, order)
        self._keep += [places, tensors]
        while order and not self._late():
            batch, order = order[:_BATCH], order[_BATCH:]
            batch = [where for where in batch if where not in self._paths]
            if batch:
                self._search(batch, places)
        self._name_saved()
        rows = [(*where, path) for where, path in self._paths.items()][:_MOST_ROWS]
        if self.cut_off:
            rows += [(*where, CUT_OFF.format(self._seconds)) for where in order[:1] if where not in self._paths]
        self._parents, self._keep, self._roots = {}, [], None
        return rows

    def _late(self):
        self.cut_off = self.cut_off or time.monotonic() > self._deadline
        return self.cut_off

    # --- the search

    def _search(self, batch, places):
        frontier = [tensor for where in batch for tensor in places[where]]
        open_ = set(batch)
        for _ in range(_DEPTH):
            frontier = self._climb([thing for thing in frontier if self._roots.of(thing) is None])
            for where in list(open_):
                if self._name(where, places[where]):
                    open_.discard(where)
            if not frontier or not open_ or self._late():
                break
            frontier = frontier[:_FRONTIER]
        for where in open_:
            if not self.cut_off:
                text = cycle_text(places[where], self._parents)
                if text:
                    self._paths[where] = text

    def _climb(self, frontier):
        """Enters who refers to the things of `frontier`; returns those that are new."""
        frontier = [thing for thing in frontier if id(thing) not in self._parents]
        wanted = {id(thing): thing for thing in frontier}
        for key in wanted:
            self._parents[key] = []
        if not frontier:
            return []
        new = []
        skip = {id(frontier), id(wanted), id(new), id(self._keep), id(self._parents)}
        for referrer in gc.get_referrers(*frontier):
            if id(referrer) in skip or id(referrer) in self._ours or self._is_noise(referrer):
                continue
            held = {id(thing) for thing in gc.get_referents(referrer)} & wanted.keys()
            for key in held:
                self._parents[key].append(referrer)
            if held:
                new.append(referrer)
        self._keep += [frontier, new]
        self._ours |= {id(frontier), id(wanted), id(new)} | {id(found) for found in self._parents.values()}
        return new

    def _is_noise(self, thing):
        """Things of memlab itself; frames that run (their locals are roots already)."""
        if type(thing) is types.FrameType:
            return id(thing) in self._roots.running or is_ours(thing)
        return type(thing).__module__.startswith("memlab.")

    # --- the words

    def _name(self, where, tensors):
        """Names a storage if one of its tensors has a chain to a root, and what lies beside it."""
        best = None
        for tensor in tensors:
            chain = self._chain(tensor)
            if chain is not None and (best is None or len(chain) < len(best)):
                best = chain
        if best is None:
            return False
        self._paths[where] = path_text(best, self._roots)
        self._name_siblings(best)
        return True

    def _chain(self, start):
        """The shortest chain from `start` up to a root, as a list that begins with the root."""
        queue, came_from = [start], {id(start): None}
        for thing in queue:
            if self._roots.of(thing) is not None:
                chain = [thing]
                while came_from[id(chain[-1])] is not None:
                    chain.append(came_from[id(chain[-1])])
                return chain
            for parent in self._parents.get(id(thing), ()):
                if id(parent) not in came_from:
                    came_from[id(parent)] = thing
                    queue.append(parent)
        return None

    def _name_siblings(self, chain):
        """A list or dict of tensors has the same chain for all of them."""
        if len(chain) < 2 or type(chain[-2]) not in (dict, list, tuple):
            return
        container = chain[-2]
        if self._roots.is_module_dict(container):
            return
        values = list(dict.values(container)) if type(container) is dict else list(kind_iter(container))
        for value in values[:_MOST_ROWS]:
            if type(value) is type(chain[-1]):
                where = storage_of(value)
                if where and where[:2] not in self._paths and where[:2] not in self._census.owned:
                    self._paths[where[:2]] = path_text([*chain[:-1], value], self._roots)

    def _name_saved(self):
        """Storages that only C++ holds: through the tensor whose graph saved them."""
        for where, (_, root, *_) in self._graphs.saved.items():
            found = storage_of(root)
            path = self._paths.get(found[:2]) if found else None
            if path and where not in self._paths:
                self._paths[where] = f"autograd graph of {path}"


def _containers_of(*things):
    """Ids of the plain containers that memlab itself made for this search."""
    ids, stack = set(), list(things)
    while stack:
        thing = stack.pop()
        if id(thing) in ids:
            continue
        if type(thing) in (dict, list, tuple, set) or type(thing).__module__.startswith("memlab."):
            ids.add(id(thing))
            stack += [
                inner
                for inner in gc.get_referents(thing)
                if type(inner) in (dict, list, tuple, set) or type(inner).__module__.startswith("memlab.")
            ]
    return ids
