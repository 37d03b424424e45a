"""Recorded events, segments and annotations as chunks.

Owns the mapping from what `torch.cuda.memory._snapshot()` returns to the columns of docs/trace-format.md. Knows
nothing about when events are read or whether some are missing: see `drain`.
"""

from operator import itemgetter

from . import chunks
from .columns import delta, is_constant, offset
from .intern import SnapshotStacks

CHUNK_EVENTS = 16_384
NO_TIME = -(1 << 63)
_ACTIONS = {
    "alloc": 0,
    "free_requested": 1,
    "free_completed": 2,
    "segment_alloc": 3,
    "segment_free": 4,
    "segment_map": 5,
    "segment_unmap": 6,
    "snapshot": 7,
    "oom": 8,
    "annotate": 9,
}
_OTHER = 10
_MASK = (1 << 64) - 1
_STATES = {"active_allocated": 1, "active_pending_free": 2, "active_awaiting_free": 2}


class EventWriter:
    """Appends the events of all devices to one file; counts them."""

    def __init__(self, file, tables):
        self._file, self._tables = file, tables
        #: Events written so far, by device.
        self.counts = {}

    def write(self, device, entries):
        """Writes trace entries of `device`, oldest first; the tables that they need go before them."""
        for start in range(0, len(entries), CHUNK_EVENTS):
            self._write_chunk(device, entries[start : start + CHUNK_EVENTS])

    def _write_chunk(self, device, entries):
        facts, payload = self._columns(entries)
        first = self.counts.get(device, 0)
        facts.update(device=device, first=first, count=len(entries))
        self._tables.write(self._file)
        self._file.write_chunk(chunks.EVENTS, facts, payload, 56 * len(entries))
        self.counts[device] = first + len(entries)

    def _columns(self, entries):
        """One pass per column: comprehensions over a list of dicts are the fastest that Python has."""
        tables, stacks = self._tables, SnapshotStacks(self._tables)
        actions = [_ACTIONS.get(entry["action"], _OTHER) for entry in entries]
        payload = {"action": offset(actions, True)}
        # By code, without the zeros at the end: bytes count faster than lists.
        codes = bytes(actions)
        facts = {"actions": [codes.count(code) for code in range(max(actions) + 1)]}
        addresses = [entry["addr"] if "addr" in entry else entry.get("device_free", 0) for entry in entries]
        payload["address"] = offset(_unsigned(addresses))
        payload["size"] = offset(_unsigned(list(map(itemgetter("size"), entries))))
        raw_streams = [entry.get("stream", 0) for entry in entries]
        streams = {stream: index for index, stream in enumerate(dict.fromkeys(raw_streams))}
        facts["streams"] = _unsigned(list(streams))
        if len(streams) > 1:
            payload["stream"] = offset(list(map(streams.__getitem__, raw_streams)))
        stack = stacks.stack
        payload["stack"] = offset([stack(entry.get("frames")) for entry in entries])
        times = [entry.get("time_us", NO_TIME) for entry in entries]
        known = times if NO_TIME not in times else [time for time in times if time != NO_TIME]
        if known:
            payload["time"] = delta(times)
            facts.update(start_us=min(known), end_us=max(known))
        for column, key in (("user_metadata", "user_metadata"), ("internal_metadata", "internal_metadata")):
            payload[column] = self._texts([entry.get(key, "") for entry in entries])
        contexts = [entry.get("compile_context", "") for entry in entries]
        payload["compile_context"] = self._texts(["" if text == "N/A" else text for text in contexts])
        if any("pool_id" in entry for entry in entries):
            payload["pool"] = offset([tables.pool(entry["pool_id"]) if "pool_id" in entry else 0 for entry in entries])
        if any("forward_frames" in entry for entry in entries):
            forward = [entry.get("forward_frames") for entry in entries]
            payload["forward_frames"] = self._texts(["\n".join(map(str, frames)) if frames else "" for frames in forward])
        if _OTHER in actions:
            payload["other_action"] = self._texts(
                ["" if entry["action"] in _ACTIONS else str(entry["action"]) for entry in entries]
            )
        absent = [name for name, column in payload.items() if name != "action" and is_constant(column) == 0]
        for name in absent:
            del payload[name]
        return facts, payload

    def _texts(self, texts):
        """Few texts, many rows: every distinct one is looked up once."""
        ids = {text: self._tables.string(text) for text in set(texts)}
        if len(ids) == 1:
            return [0, 0, next(iter(ids.values())), b""]
        return offset(list(map(ids.__getitem__, texts)))


def write_segments(file, tables, counts, segments, devices):
    """The state of the memory as it is now, for every device of `devices`, also those that hold nothing."""
    by_device = {device: [] for device in devices}
    for segment in segments:
        by_device.setdefault(segment.get("device", 0), []).append(segment)
    for device, rows in sorted(by_device.items()):
        events = counts.get(device, 0)
        start = 0
        for part in _segment_parts(rows):
            facts, payload, cost = _segment_chunk(tables, part)
            facts.update(device=device, events=events, first=start)
            tables.write(file)
            file.write_chunk(chunks.SEGMENTS, facts, payload, cost)
            start += len(part)
        if not rows:
            file.write_chunk(chunks.SEGMENTS, {"device": device, "events": events, "first": 0, "count": 0, "blocks": 0})


def _segment_parts(segments, most=20_000):
    """Runs of segments with at most `most` blocks, so that no payload passes the format's limit."""
    part, blocks = [], 0
    for segment in segments:
        count = len(segment.get("blocks") or ())
        if part and blocks + count > most:
            yield part
            part, blocks = [], 0
        part.append(segment)
        blocks += count
    if part:
        yield part


def _segment_chunk(tables, segments):
    stacks = SnapshotStacks(tables)
    blocks = [(segment, block) for segment in segments for block in segment["blocks"]]
    pools = [segment.get("segment_pool_id") or (0, 0) for segment in segments]
    block_addresses = []
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            block_addresses.append(block.get("address", address))
            address += block["size"]
    columns = {
        "address": [segment["address"] for segment in segments],
        "bytes": [segment["total_size"] for segment in segments],
        "stream": [segment.get("stream", 0) for segment in segments],
        "kind": [int(segment.get("segment_type") == "large") for segment in segments],
        "pool_first": [pool[0] for pool in pools],
        "pool_second": [pool[1] for pool in pools],
        "expandable": [int(bool(segment.get("is_expandable"))) for segment in segments],
        "stack": [stacks.stack(segment.get("frames")) for segment in segments],
        "allocated_bytes": [segment.get("allocated_size", 0) for segment in segments],
        "active_bytes": [segment.get("active_size", 0) for segment in segments],
        "requested_bytes": [segment.get("requested_size", 0) for segment in segments],
        "blocks": [len(segment["blocks"]) for segment in segments],
        "block_address": block_addresses,
        "block_bytes": [block["size"] for _, block in blocks],
        "block_requested_bytes": [block.get("requested_size", 0) for _, block in blocks],
        "block_state": [_STATES.get(block.get("state"), 0) for _, block in blocks],
        "block_stack": [stacks.stack(block.get("frames")) for _, block in blocks],
    }
    payload = {name: offset(_unsigned(values), True) for name, values in columns.items()}
    facts = {"count": len(segments), "blocks": len(blocks)}
    return facts, payload, 176 * len(segments) + 48 * len(blocks)


def write_annotations(file, tables, annotations):
    """`record_function` ranges as `external_annotations` gives them."""
    for start in range(0, len(annotations), CHUNK_EVENTS):
        part = annotations[start : start + CHUNK_EVENTS]
        devices = [entry.get("device", 0xFFFF_FFFF) & 0xFFFF_FFFF for entry in part]
        payload = {
            "name": offset([tables.string(entry.get("name", "")) for entry in part]),
            "begins": offset([int(entry.get("stage") == "START") for entry in part]),
            "device": offset(devices),
            "time": delta([entry.get("time_us", NO_TIME) for entry in part]),
        }
        tables.write(file)
        file.write_chunk(chunks.ANNOTATIONS, {"count": len(part)}, payload, 24 * len(part))


def _unsigned(values):
    """Addresses above 2**63 may come as negative numbers."""
    return [value & _MASK for value in values] if min(values, default=0) < 0 else values


