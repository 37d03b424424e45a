"""Strings, frames, stacks and pools of a trace, each written once.

Owns the ids and what has not been written yet. Frame lists of one snapshot are shared objects: within a snapshot
they are known by `id()`, across snapshots by their content. The tables of a long run stay bounded: past a limit
they are forgotten and begin anew, for the format lets a text, frame or stack have two ids.
"""

from . import chunks
from .columns import offset

#: Rows that are remembered. A stack takes about 300 bytes.
MAX_STACKS = 200_000
MAX_STRINGS = 200_000
#: Rows of one chunk, so that no payload comes near the format's limit.
_CHUNK_STRINGS = 8_192
_CHUNK_STACK_FRAMES = 200_000
#: Longer texts are cut: symbols of C++ templates can have many kilobytes.
MAX_TEXT = 1_000


class Tables:
    """The tables of one trace."""

    def __init__(self):
        self._strings, self._frames, self._stacks, self._pools = {"": 0}, {}, {(): 0}, {(): 0}
        self._new_strings, self._new_frames, self._new_stacks, self._new_pools = [], [], [], []
        self._next = {"strings": 1, "frames": 0, "stacks": 1, "pools": 1}

    def string(self, text):
        """Id of `text`."""
        known = self._strings.get(text)
        if known is None:
            if len(self._strings) >= MAX_STRINGS:
                self._strings, self._frames, self._stacks = {"": 0}, {}, {(): 0}
            known = self._strings[text] = self._enter("strings", self._new_strings, clean(text))
        return known

    def pool(self, pair):
        """Id of a `segment_pool_id`."""
        pair = tuple(pair)
        known = self._pools.get(pair)
        if known is None:
            known = self._pools[pair] = self._enter("pools", self._new_pools, pair)
        return known

    def frame(self, function, file, line):
        """Id of a frame."""
        row = (self.string(function), self.string(file), line)
        known = self._frames.get(row)
        if known is None:
            known = self._frames[row] = self._enter("frames", self._new_frames, row)
        return known

    def stack(self, frames):
        """Id of a tuple of frame ids, innermost first."""
        known = self._stacks.get(frames)
        if known is None:
            if len(self._stacks) >= MAX_STACKS:
                self._stacks = {(): 0}
            known = self._stacks[frames] = self._enter("stacks", self._new_stacks, frames)
        return known

    def _enter(self, table, rows, row):
        rows.append(row)
        number = self._next[table]
        self._next[table] = number + 1
        return number

    def write(self, file):
        """Writes the rows that are new."""
        first = {name: self._next[name] - len(rows) for name, rows in self._unwritten()}
        strings, frames, stacks, pools = (rows for _, rows in self._unwritten())
        self._new_strings, self._new_frames, self._new_stacks, self._new_pools = [], [], [], []
        for start in range(0, len(strings), _CHUNK_STRINGS):
            part = strings[start : start + _CHUNK_STRINGS]
            _write_strings(file, first["strings"] + start, part)
        for start in range(0, len(frames), _CHUNK_STRINGS):
            part = frames[start : start + _CHUNK_STRINGS]
            _write_frames(file, first["frames"] + start, part)
        for start, part in _parts(stacks):
            _write_stacks(file, first["stacks"] + start, part)
        if pools:
            _write_pools(file, first["pools"], pools)

    def _unwritten(self):
        yield "strings", self._new_strings
        yield "frames", self._new_frames
        yield "stacks", self._new_stacks
        yield "pools", self._new_pools


class SnapshotStacks:
    """Stack ids of the frame lists of one snapshot; valid while that snapshot lives."""

    def __init__(self, tables):
        self._tables = tables
        self._lists, self._shapes, self._frames = {}, {}, {}

    def stack(self, frames):
        """Id of a list of frames as `_snapshot()` gives it, or of None."""
        if not frames:
            return 0
        known = self._lists.get(id(frames))
        if known is None:
            shape = tuple(map(id, frames))
            known = self._shapes.get(shape)
            if known is None:
                known = self._shapes[shape] = self._tables.stack(tuple(map(self._frame, frames)))
            self._lists[id(frames)] = known
        return known

    def _frame(self, frame):
        known = self._frames.get(id(frame))
        if known is None:
            line = frame.get("line") or 0
            known = self._tables.frame(frame.get("name") or "", frame.get("filename") or "", line & 0xFFFF_FFFF_FFFF_FFFF)
            self._frames[id(frame)] = known
        return known


def clean(text):
    """`text` as it may be packed: lone surrogates replaced, cut to a sane length."""
    text = text if isinstance(text, str) else str(text)
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT - 1] + "…"
    return text.encode("utf-8", "replace").decode("utf-8")


def _parts(stacks):
    """Runs of stacks that together have no more frames than one chunk takes: (first, rows)."""
    start = frames = 0
    for index, stack in enumerate(stacks):
        if index > start and (frames + len(stack) > _CHUNK_STACK_FRAMES or index - start >= _CHUNK_STRINGS):
            yield start, stacks[start:index]
            start, frames = index, 0
        frames += len(stack)
    if start < len(stacks):
        yield start, stacks[start:]


def _write_strings(file, first, rows):
    size = 32 * len(rows) + sum(map(len, rows))
    file.write_chunk(chunks.TABLES, {"strings": [first, len(rows)]}, {"strings": rows}, size)


def _write_frames(file, first, rows):
    functions, files, lines = zip(*rows)
    columns = {"frame_function": functions, "frame_file": files, "frame_line": lines}
    payload = {name: offset(values, True) for name, values in columns.items()}
    file.write_chunk(chunks.TABLES, {"frames": [first, len(rows)]}, payload, 64 * len(rows))


def _write_stacks(file, first, rows):
    flat = [frame for stack in rows for frame in stack]
    facts = {"stacks": [first, len(rows)], "stack_frames": len(flat)}
    lengths = [len(stack) for stack in rows]
    payload = {"stack_length": offset(lengths, True), "stack_frame": offset(flat, True)}
    file.write_chunk(chunks.TABLES, facts, payload, 40 * len(rows) + 8 * len(flat))


def _write_pools(file, first, rows):
    payload = {"pool_first": offset([row[0] for row in rows], True), "pool_second": offset([row[1] for row in rows], True)}
    file.write_chunk(chunks.TABLES, {"pools": [first, len(rows)]}, payload, 48 * len(rows))
