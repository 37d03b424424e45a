// Reads the blobs of a page: base64 -> raw DEFLATE -> header and columns of varints. Owns the container's
// layout and nothing of what the columns mean (model.js).

// Decodes the element `id`. Gives the header and `column(ref)`, which reads one column when it is asked for.
async function decodeBlob(id) {
  const packed = bytesOfBase64(document.getElementById(id).textContent.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const whole = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(whole.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(whole.subarray(4, 4 + size)));
  return { header, column: ref => readColumn(whole, 4 + size, ref) };
}

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// One column as floating point numbers, which hold integers below 2^53 exactly. The bit operators of the
// language work on 32 bits, so the upper part of a long varint is added by multiplication.
function readColumn(whole, start, ref) {
  const values = new Float64Array(ref.n);
  let at = start + ref.at;
  let sum = 0;
  for (let i = 0; i < ref.n; i++) {
    let byte = whole[at++];
    let value = byte & 127;
    for (let shift = 7; byte >= 128; shift += 7) {
      byte = whole[at++];
      value = shift < 28 ? value | ((byte & 127) << shift) : value + (byte & 127) * 2 ** shift;
    }
    if (ref.as === 'plain') {
      values[i] = value;
    } else {
      sum += ref.as === 'delta' ? value : value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      values[i] = sum;
    }
  }
  if (!(at <= whole.length)) throw new Error('a column ends too early');
  return values;
}
