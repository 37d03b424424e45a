"""Reads what layers.py needs of the emitter's trace: events of segments and states of them (kinds 2, 3, 6)."""

from compare import Trace, column

SEGMENT_ACTIONS = {3: "segment_alloc", 4: "segment_free", 5: "segment_map", 6: "segment_unmap"}


class Emitted(Trace):
    """`events`: (action, address, bytes, time, device) of segments, as recorded. `states`: the newest state of each device,
    rows (address, bytes, stream, expandable). `begins`: segments from before the first event."""

    def __init__(self, path):
        self.events, self.count, self.states, self.begins, self.is_first = [], {}, {}, {}, {}
        super().__init__(path)

    def take(self, kind, facts, payload):
        if kind == 2:
            self.take_events(facts, payload)
        elif kind == 3:
            self.take_state(facts, payload)
        elif kind in (6, 14):
            super().take(kind, facts, payload)
        elif kind == 15:
            self.closed = facts["clean"]

    def take_events(self, facts, payload):
        device, count = facts["device"], facts["count"]
        self.count[device] = self.count.get(device, 0) + count
        columns = [column(payload.get(key), count) for key in ("action", "address", "size", "time")]
        for action, address, size, time in zip(*columns):
            if action in SEGMENT_ACTIONS:
                self.events.append((SEGMENT_ACTIONS[action], address, size, time, device))

    def take_state(self, facts, payload):
        device, count = facts["device"], facts["count"]
        columns = [column(payload.get(key), count) for key in ("address", "bytes", "stream", "expandable")]
        rows = list(zip(*columns))
        if facts["first"]:
            rows = self.states[device] + rows
        else:
            self.is_first[device] = facts.get("events", self.count.get(device, 0)) == 0
        self.states[device] = rows
        if self.is_first[device]:
            self.begins[device] = rows
