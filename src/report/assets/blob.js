"use strict";

// Reads the blobs of the page: base64 of a raw DEFLATE stream of a container (length, header, payload).
async function decodeBlob(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page holds no ${id}`);
  const packed = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(unpacked).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const payload = bytes.subarray(4 + length);
  return { header, column: (place) => decodeColumn(payload, place) };
}

function decodeColumn(payload, { at, n, as }) {
  const values = new Float64Array(n);
  let before = 0;
  let next = at;
  for (let index = 0; index < n; index += 1) {
    let value = 0;
    let scale = 1;
    for (;;) {
      if (next >= payload.length) throw new Error("a column ends too early");
      const byte = payload[next++];
      value += (byte & 127) * scale;
      if (byte < 128) break;
      scale *= 128;
    }
    if (as === "delta") value += before;
    if (as === "zigzag") value = before + (value % 2 ? -(value + 1) / 2 : value / 2);
    values[index] = value;
    before = value;
  }
  return values;
}
