"""Who keeps a tensor alive: chains of Python references up to a root that a person knows.

Owns the search: level by level through `gc.get_referrers`, for many tensors at once, the largest first, bounded in
time. What lies beside a tensor in the same container is named without a search of its own. A tensor that nothing
but a ring of references holds is said to be in a cycle. Roots are `roots`', words are `edges`'.
"""

import gc
import time
import types

from .chains import cycle_text, path_text
from .edges import items_of
from .live import is_memlabs, storage_of
from .roots import Roots, is_ours

_BATCH = 16
_MOST_TARGETS = 400
_DEPTH = 12
_FRONTIER = 48
_MOST_ROWS = 4_000
CUT_OFF = "(search cut off after {:g} s)"


class Search:
    """One search; `run` gives rows of (device, address, path)."""

    def __init__(self, census, graphs, seconds, own=()):
        """`own` are containers of the caller's, which are no holders either."""
        self._census, self._graphs, self._seconds, self._own = census, graphs, seconds, own
        self._deadline = time.monotonic() + seconds
        self._paths = {}  # (device, address): text
        self._parents = {}  # id of a thing: things that refer to it
        self._keep = []  # so that ids stay valid while we work
        self._roots = None
        self.cut_off = False

    def run(self, tensors):
        """`tensors` are all that nobody owns. First those whose graphs are not a part of another's."""
        places, weights = {}, {}
        inner = set()
        for tensor in tensors:
            where = storage_of(tensor)
            places.setdefault(where[:2], []).append(tensor)
            retained = self._graphs.retained.get(id(tensor), 0)
            weights[where[:2]] = max(weights.get(where[:2], 0), where[2] + retained)
            if self._graphs.is_inside(tensor) or (where[:2] in self._graphs.saved and not retained):
                inner.add(where[:2])
        order = sorted(places, key=lambda where: (-weights[where], where))
        self._roots = Roots()
        self._ours = _containers_of(self, self._census, self._graphs, places, tensors, order, *self._own)
        self._keep += [places, tensors]
        self._search_all([where for where in order if where not in inner][:_MOST_TARGETS], places)
        self._name_saved(places)
        self._search_all([where for where in order if where in inner][:_MOST_TARGETS], places)
        rows = [(*where, path) for where, path in self._paths.items()][:_MOST_ROWS]
        if self.cut_off:
            missing = [where for where in order if where not in self._paths]
            rows += [(*where, CUT_OFF.format(self._seconds)) for where in missing[:1]]
        self._parents, self._keep, self._roots = {}, [], None
        return rows

    def _search_all(self, order, places):
        while order and not self._late():
            order = [where for where in order if where not in self._paths]
            self._search(order[:_BATCH], places)
            order = order[_BATCH:]

    def _mine(self, made):
        """Registers a list of ours, which must not be taken for a holder."""
        self._ours.add(id(made))
        self._keep.append(made)
        return made

    def _late(self):
        self.cut_off = self.cut_off or time.monotonic() > self._deadline
        return self.cut_off

    # --- the search

    def _search(self, batch, places):
        frontier = self._mine([tensor for where in batch for tensor in places[where]])
        open_ = set(batch)
        for _ in range(_DEPTH):
            frontier = self._climb(frontier)
            open_ = {where for where in open_ if not self._name(where, places[where])}
            if not frontier or not open_ or self._late():
                break
        if not self.cut_off:
            for where in open_:
                text = cycle_text(places[where], self._parents)
                if text:
                    self._paths[where] = text

    def _climb(self, things):
        """Enters who refers to `things`; returns those that are new."""
        new = self._mine([thing for thing in things if id(thing) not in self._parents and self._roots.of(thing) is None])
        frontier = self._mine(new[:_FRONTIER])
        for thing in frontier:
            self._parents[id(thing)] = self._mine([])
        wanted = set(map(id, frontier))
        found = self._mine([])
        referrers = self._mine(gc.get_referrers(*frontier)) if frontier else ()
        for referrer in referrers:
            if id(referrer) in self._ours or self._is_noise(referrer):
                continue
            held = wanted.intersection(map(id, gc.get_referents(referrer)))
            for key in held:
                self._parents[key].append(referrer)
            if held:
                found.append(referrer)
        return found

    def _is_noise(self, thing):
        """Things of memlab itself; frames that run (their locals are roots already)."""
        if type(thing) is types.FrameType:
            return id(thing) in self._roots.running or is_ours(thing)
        return is_memlabs(thing)

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
        values = list(dict.values(container)) if type(container) is dict else list(items_of(container))
        for value in values[:_MOST_ROWS]:
            if type(value) is type(chain[-1]):
                where = storage_of(value)
                if where and where[:2] not in self._paths and where[:2] not in self._census.owned:
                    self._paths[where[:2]] = path_text([*chain[:-1], value], self._roots)

    def _name_saved(self, places):
        """Storages that only a graph holds: through the tensor whose graph it is."""
        inside = [(where, tensor) for where, tensors in places.items() for tensor in tensors if self._graphs.is_inside(tensor)]
        saved = [(where, entry[1]) for where, entry in self._graphs.saved.items()]
        for where, tensor in saved + inside:
            found = storage_of(self._graphs.root_of(tensor))
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
        if type(thing) in (dict, list, tuple, set) or is_memlabs(thing):
            ids.add(id(thing))
            stack += [
                inner
                for inner in gc.get_referents(thing)
                if type(inner) in (dict, list, tuple, set) or is_memlabs(inner)
            ]
    return ids
