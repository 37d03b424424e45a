"""Census and holders together, as they are written at an OOM, at the end and on demand.

Owns the order and the time budget of the two. The only module that imports torch, which is there by then.
"""

import sys
import time

from . import warn
from .census import Census
from .facts import now_us
from .graph import Graphs
from .live import Live, storage_of
from .names import NAMES

CENSUS_SECONDS = 2.0
HOLDER_SECONDS = 2.0


class Found:
    """Rows for the chunks of tensors and holders, and what was cut off."""

    def __init__(self):
        self.time_us = now_us()
        self.tensors, self.holders, self.faults = [], [], []


def census_and_holders(options):
    """What is alive, what it is called, and who holds it. Never raises; what fails is missing and said."""
    found = Found()
    torch = sys.modules.get("torch")
    if torch is None:
        return found
    try:
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            _search(torch, options, found)
    except Exception as error:
        warn.warn("census", f"the census failed: {type(error).__name__}: {error}")
        found.faults.append("census failed")
    return found


def name_live_modules():
    """Gives every live module its name; for modules that are called before any census."""
    torch = sys.modules["torch"]
    live = Live(torch)
    NAMES.name_all(live.modules)
    live.close()


def _search(torch, options, found):
    live = Live(torch)
    census = Census(live, NAMES)
    graphs = Graphs(storage_of, census.owned, time.monotonic() + CENSUS_SECONDS)
    others = [tensor for tensor in live.tensors if (storage_of(tensor) or (0, 0))[:2] not in census.owned]
    for tensor in others:
        if _has_graph(tensor):
            graphs.walk(tensor)
    if graphs.cut_off:
        found.faults.append("walk over autograd graphs cut off")
    found.tensors = census.rows
    _add_saved(found.tensors, graphs.saved)
    if options.holders:
        from .holders import Search

        search = Search(census, graphs, HOLDER_SECONDS, (live, others))
        found.holders = search.run([tensor for tensor in others if storage_of(tensor)])
        if search.cut_off:
            found.faults.append(f"search for holders cut off after {HOLDER_SECONDS:g} s")
    live.close()


def _has_graph(tensor):
    try:
        return tensor.grad_fn is not None
    except Exception:
        return False


def _add_saved(rows, saved):
    known = {row[:2] for row in rows}
    for where, (size, _, node, dtype, shape) in saved.items():
        if where not in known:
            rows.append((*where, size, "activation", "", dtype, shape, node))
