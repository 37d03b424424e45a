"""Rewrites the paths in a trace: rewrite.py IN OUT OLD=NEW ...

The recordings of this folder were made on a machine whose paths say nothing to anybody. Chunks without a changed
text are copied as they are.
"""

import sys
import zlib

import msgpack


def rewritten(chunk, pairs):
    """A chunk of tables with changed strings, packed; None if nothing changed."""
    magic, kind, codec, _, facts, stored, _ = chunk
    payload = zlib.decompress(stored) if codec == 2 else stored
    payload = msgpack.unpackb(payload, strict_map_key=False) if payload else {}
    texts = payload.get("strings" if kind == 1 else "texts")
    if texts is None:
        return None
    for index, text in enumerate(texts):
        for old, new in pairs:
            text = text.replace(old, new)
        texts[index] = text
    raw = msgpack.packb(payload)
    stored = zlib.compress(raw, 1)
    codec, stored = (2, stored) if len(stored) < len(raw) else (0, raw)
    body = b"\x97" + b"".join(map(msgpack.packb, (magic, kind, codec, len(raw), facts, stored)))
    return body + msgpack.packb(zlib.crc32(body))


def main(source, target, *pairs):
    pairs = [pair.split("=", 1) for pair in pairs]
    with open(source, "rb") as file:
        data = file.read()
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    unpacker.feed(data)
    begin = 0
    with open(target, "wb") as out:
        for chunk in unpacker:
            out.write(rewritten(chunk, pairs) or data[begin : unpacker.tell()])
            begin = unpacker.tell()
        out.write(data[begin:])


if __name__ == "__main__":
    main(*sys.argv[1:])
