"""The small chunks: process facts, settings, marks, samples, tensors, holders, warnings.

Owns their payloads as docs/trace-format.md defines them. Takes plain rows; knows nothing of torch.
"""

from . import chunks
from .columns import delta, offset
from .intern import clean

STEP, PHASE, MODULE, USER, FAULT = range(5)
MOMENT, BEGIN, END = range(3)
_ROWS = 4_096
_I64 = 1 << 63
_NOT_KNOWN = (1 << 64) - 1


class Texts:
    """The texts of one chunk, each once."""

    def __init__(self):
        self.rows, self._ids, self.bytes = [], {}, 0

    def id(self, text):
        """Index of `text`."""
        text = clean(text)
        self.bytes += len(text)
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = len(self.rows)
            self.rows.append(text)
        return known


def write_process(file, facts):
    """Facts about the process. A later chunk's keys replace an earlier one's, `other` as a whole."""
    facts = plain(facts)
    file.write_chunk(chunks.PROCESS, {}, facts, 32 * 256)


def write_settings(file, settings):
    """`allocator_settings` as PyTorch gives them."""
    values = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            values[str(key)] = {str(name): number for name, number in value.items() if isinstance(number, int)}
        elif isinstance(value, (bool, int, float, str)):
            values[str(key)] = value
    if values:
        file.write_chunk(chunks.SETTINGS, {}, plain(values), 32 * 512)


def write_marks(file, marks):
    """Rows of (kind, name, time_us, begins)."""
    for part in _parts(marks):
        texts = Texts()
        payload = {
            "kind": offset([mark[0] for mark in part]),
            "name": offset([texts.id(mark[1]) for mark in part]),
            "time": delta([mark[2] for mark in part]),
            "begins": offset([mark[3] for mark in part]),
        }
        payload["texts"] = texts.rows
        file.write_chunk(chunks.MARKS, {"count": len(part)}, payload, 96 * len(part) + texts.bytes)


def write_samples(file, samples):
    """Maps of device, time_us, events, free_bytes, total_bytes, stats."""
    if samples:
        file.write_chunk(chunks.SAMPLES, {"count": len(samples)}, {"samples": plain(samples)}, sum(96 + 96 * len(sample["stats"]) for sample in samples))


def write_tensors(file, rows, time_us, events):
    """Rows of (device, address, bytes, kind, name, dtype, shape, grad_fn); `events` counts a device's before."""
    for part in _parts(rows):
        texts = Texts()
        shape = [size for row in part for size in row[6]]
        payload = {
            "device": offset([row[0] for row in part]),
            "address": offset([row[1] for row in part]),
            "bytes": offset([row[2] for row in part]),
            "kind": offset([texts.id(row[3]) for row in part]),
            "name": offset([texts.id(row[4]) for row in part]),
            "dtype": offset([texts.id(row[5]) for row in part]),
            "rank": offset([len(row[6]) for row in part]),
            "shape": offset(shape),
            "grad_fn": offset([texts.id(row[7]) for row in part]),
            "time": offset([time_us] * len(part)),
            "events": offset([events.get(row[0], _NOT_KNOWN) for row in part]),
        }
        payload["texts"] = texts.rows
        cost = 256 * len(part) + 8 * len(shape) + texts.bytes
        file.write_chunk(chunks.TENSORS, {"count": len(part), "dimensions": len(shape)}, payload, cost)


def write_holders(file, rows, time_us, events):
    """Rows of (device, address, path)."""
    for part in _parts(rows):
        texts = Texts()
        payload = {
            "device": offset([row[0] for row in part]),
            "address": offset([row[1] for row in part]),
            "path": offset([texts.id(row[2]) for row in part]),
            "time": offset([time_us] * len(part)),
            "events": offset([events.get(row[0], _NOT_KNOWN) for row in part]),
        }
        payload["texts"] = texts.rows
        file.write_chunk(chunks.HOLDERS, {"count": len(part)}, payload, 96 * len(part) + texts.bytes)


def write_warnings(file, rows):
    """Rows of [kind, count, text]."""
    if rows:
        payload = {"warnings": [[clean(kind), count, clean(text)] for kind, count, text in rows]}
        file.write_chunk(chunks.WARNINGS, {}, payload, 32 * 512)


def plain(value, depth=0):
    """`value` with nothing in it but what JSON knows and 64 bits hold."""
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return value if -_I64 <= value < 2 * _I64 else float(value)
    if isinstance(value, str):
        return clean(value)
    if depth > 16:
        return "…"
    if isinstance(value, dict):
        return {clean(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return clean(str(value))


def _parts(rows):
    for start in range(0, len(rows), _ROWS):
        yield rows[start : start + _ROWS]
