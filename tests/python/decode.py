"""Reads a trace with msgpack alone: what the tests need to see of a file, without the analyzer."""

import zlib
from array import array

import msgpack

CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
KINDS = "header tables events segments settings annotations process marks tensors holders warnings samples".split()


def column(raw, count):
    """Values of a column, modulo 2**64 as signed numbers."""
    encoding, width, base, data = raw[:4]
    values = list(array(CODES[width], data)) if width else [0] * count
    assert len(values) == count
    if encoding == 0:
        return [value + base for value in values]
    result, last = [], raw[4]
    for value in values:
        last += base + value
        result.append(last)
    return result


class Trace:
    """A trace as plain lists. `whole` says whether the file ends with its trailer and nothing after it."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        self.strings, self.frames, self.stacks = [""], [], [()]
        self.events, self.marks, self.tensors, self.holders = {}, [], [], []
        self.process, self.warnings, self.samples, self.states = {}, [], [], []
        self.kinds, self.trailer = [], None
        unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
        unpacker.feed(data)
        end = 0
        for chunk in unpacker:
            self._take(chunk, data[end : unpacker.tell()])
            end = unpacker.tell()
        self.rest = data[end:]
        self.whole = self.trailer is not None and not self.rest

    def _take(self, chunk, raw):
        magic, kind, codec, length, facts, stored, crc = chunk
        assert magic == "memlab"
        assert zlib.crc32(raw[: len(raw) - len(msgpack.packb(crc))]) == crc
        payload = zlib.decompress(stored) if codec == 2 else stored
        assert len(payload) == length
        payload = msgpack.unpackb(payload, strict_map_key=False) if payload else {}
        self.kinds.append(KINDS[kind] if kind < len(KINDS) else "trailer")
        if kind == 15:
            self.trailer = facts
        else:
            getattr(self, "_" + KINDS[kind])(facts, payload)

    def _header(self, facts, payload):
        self.header = facts

    def _tables(self, facts, payload):
        for name, rows in (("strings", self.strings), ("frames", self.frames), ("stacks", self.stacks)):
            if name in facts:
                assert facts[name][0] == len(rows), name
        self.strings += payload.get("strings", [])
        if "frames" in facts:
            count = facts["frames"][1]
            names = [column(payload[f"frame_{key}"], count) for key in ("function", "file", "line")]
            self.frames += zip(*names)
        if "stacks" in facts:
            flat = iter(column(payload["stack_frame"], facts["stack_frames"]))
            for length in column(payload["stack_length"], facts["stacks"][1]):
                self.stacks.append(tuple(next(flat) for _ in range(length)))

    def _events(self, facts, payload):
        count, rows = facts["count"], self.events.setdefault(facts["device"], [])
        assert facts["first"] == len(rows)
        columns = {name: column(raw, count) for name, raw in payload.items()}
        # Readers count a file by these facts alone.
        assert facts["actions"] == [columns["action"].count(code) for code in range(max(columns["action"]) + 1)]
        times = [time for time in columns.get("time", ()) if time != -(1 << 63)]
        assert (facts.get("start_us"), facts.get("end_us")) == ((min(times), max(times)) if times else (None, None))
        zeros = [0] * count
        names = ("action", "time", "address", "size", "stack", "user_metadata")
        rows += zip(*(columns.get(name, zeros) for name in names))

    def _segments(self, facts, payload):
        self.states.append(facts)

    def _settings(self, facts, payload):
        self.settings = payload

    def _annotations(self, facts, payload):
        pass

    def _process(self, facts, payload):
        other = {**self.process.get("other", {}), **payload.pop("other", {})}
        self.process.update(payload, other=other)

    def _marks(self, facts, payload):
        texts, count = payload["texts"], facts["count"]
        rows = [column(payload[key], count) for key in ("kind", "name", "time", "begins")]
        self.marks += [(kind, texts[name], time, begins) for kind, name, time, begins in zip(*rows)]

    def _tensors(self, facts, payload):
        texts, count = payload["texts"], facts["count"]
        rows = [column(payload[key], count) for key in ("device", "address", "bytes", "kind", "name", "time")]
        self.tensors += [(d, a, b, texts[k], texts[n], t) for d, a, b, k, n, t in zip(*rows)]

    def _holders(self, facts, payload):
        texts, count = payload["texts"], facts["count"]
        rows = [column(payload[key], count) for key in ("device", "address", "path", "time")]
        self.holders += [(d, a, texts[p], t) for d, a, p, t in zip(*rows)]

    def _warnings(self, facts, payload):
        self.warnings += payload["warnings"]

    def _samples(self, facts, payload):
        self.samples += payload["samples"]
