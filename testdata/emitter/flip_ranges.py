"""Turns the ends of ranges around in a trace: flip_ranges.py IN OUT

Until 2026-11-30 memlab's recorder wrote the end of every `record_function` range as its beginning and the other
way round. The traces of this folder were recorded before; nothing else in them is touched.
"""

import sys
import zlib

import msgpack

ANNOTATIONS = 5


def flipped(chunk):
    """The chunk of annotations with every beginning an end, packed."""
    magic, kind, codec, _, facts, stored, _ = chunk
    payload = msgpack.unpackb(zlib.decompress(stored) if codec == 2 else stored, strict_map_key=False)
    encoding, width, base, values = payload["begins"]
    assert (encoding, width, base) == (0, 1, 0) and set(values) <= {0, 1}
    payload["begins"] = [encoding, width, base, bytes(1 - value for value in values)]
    raw = msgpack.packb(payload)
    stored = zlib.compress(raw, 1)
    codec, stored = (2, stored) if len(stored) < len(raw) else (0, raw)
    body = b"\x97" + b"".join(map(msgpack.packb, (magic, kind, codec, len(raw), facts, stored)))
    return body + msgpack.packb(zlib.crc32(body))


def main(source, target):
    with open(source, "rb") as file:
        data = file.read()
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    begin, out = 0, b""
    for chunk in unpacker:
        end = unpacker.tell()
        is_ranges = isinstance(chunk, list) and chunk[1] == ANNOTATIONS
        out += flipped(chunk) if is_ranges else data[begin:end]
        begin = end
    with open(target, "wb") as file:
        file.write(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
