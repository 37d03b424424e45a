"""Reads `memlab export --format perfetto` with Perfetto's own message classes (of its PyPI package) and holds its
counters, steps and failures against memlab's report.

Perfetto's SQL engine is a program that its package downloads when first used; it is not needed here."""

import common
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

FOLDER, TRACES = common.traces()
Event = schema.TrackEvent


class Tracks:
    """What a viewer would show: tracks by their path, with their points, slices and instants."""

    def __init__(self, data):
        self.path, self.events, self.unit, self.names, self.open = {}, {}, {}, {}, {}
        packets = schema.Trace.FromString(data).packet
        assert packets and packets[0].sequence_flags == schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for packet in packets:
            common.all_known(packet)
            for name in packet.interned_data.event_names:
                self.names[name.iid] = name.name
            if packet.HasField("track_descriptor"):
                self.enter(packet.track_descriptor)
            if packet.HasField("track_event"):
                assert packet.HasField("timestamp") and packet.timestamp < 1 << 63
                self.happen(packet.timestamp, packet.track_event)
        assert not any(self.open.values()), "every slice ends"

    def enter(self, track):
        name = track.process.process_name or track.name
        assert name and track.uuid not in self.path
        parent = self.path[track.parent_uuid] if track.HasField("parent_uuid") else ()
        self.path[track.uuid] = (*parent, name)
        self.unit[track.uuid] = track.counter.unit if track.HasField("counter") else None

    def happen(self, time, event):
        track = event.track_uuid
        events = self.events.setdefault(self.path[track], [])
        open_here = self.open.setdefault(track, [])
        if event.type == Event.TYPE_COUNTER:
            assert self.unit[track] == schema.CounterDescriptor.UNIT_SIZE_BYTES
            events.append((time, event.counter_value))
        elif event.type == Event.TYPE_SLICE_END:
            assert open_here.pop() <= time
        else:
            beside = {item.name: item.uint_value or item.int_value for item in event.debug_annotations}
            events.append((time, self.names[event.name_iid], beside))
            if event.type == Event.TYPE_SLICE_BEGIN:
                open_here.append(time)
            else:
                assert event.type == Event.TYPE_INSTANT


def check(trace):
    data = common.exported(trace, "perfetto", FOLDER)
    tracks = Tracks(data)
    for device in common.devices(trace):
        number = device["device"]
        (root,) = {path[0] for path in tracks.path.values() if path[0].split(" ")[:2] == ["GPU", str(number)]}
        for counter in ("requested", "allocated", "active", "reserved"):
            points = tracks.events[root, f"{counter} bytes"]
            peak, end = device["peak"][f"{counter}_bytes"], device["end"][f"{counter}_bytes"]
            assert max(value for _, value in points) == peak, (trace, counter)
            assert points[-1][1] == end, (trace, counter)
        holding = [line for line in device["lines"] if line["own_peak_bytes"] > 0]
        for line in holding[:10]:
            where = line["file"] if line["line"] is None else f"{line['file']}:{line['line']}"
            points = tracks.events[root, "held by line", f"{where} {line['function']}"]
            assert max(value for _, value in points) == line["own_peak_bytes"], (trace, line)
        steps = tracks.events.get((root, "steps"), [])
        assert [beside["peak_allocated_bytes"] for _, _, beside in steps] == [
            row["peak_allocated_bytes"] for row in device["steps"]["rows"]
        ], trace
        failures = tracks.events.get((root, "out of memory"), [])
        assert [beside["requested_bytes"] for _, _, beside in failures] == [
            oom["requested_bytes"] for oom in device["ooms"]
        ], trace
        largest = tracks.events.get((root, "largest allocations"), [])
        made = sum(row["allocations"] for row in device["lines"] + [device["unattributed"]])
        assert len(largest) == min(made, 2000), (trace, len(largest))
    print(f"perfetto: {trace}: {len(tracks.path)} tracks, {len(data)} bytes, figures equal")


for path in TRACES:
    check(path)
