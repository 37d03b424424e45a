// The map of segments: lays them out on shelves, all to one scale, and paints what is in sight. Owns geometry and
// paint; the figures are state-layout.js's.

const SHELF = 30;
const BLOCK_HEIGHT = 22;
const WANTED_SHELVES = 13;

// Pieces of segments on shelves `width` pixels wide, `perShelf` bytes each. A segment longer than a shelf goes on
// over the next ones; short ones share a shelf. `widened` counts segments that would be too narrow to see.
function layShelves(segments, width, perShelf) {
  const pieces = [];
  const scale = width / perShelf;
  const gap = segments.length > 400 ? 1 : 4;
  let [shelf, x, widened] = [0, 0, 0];
  for (const segment of segments) {
    const whole = Math.max(2, segment.bytes * scale);
    if (segment.bytes * scale < 2) widened++;
    if (x > 0 && x + whole > width) { shelf++; x = 0; }
    for (let from = 0; from < segment.bytes;) {
      const to = Math.min(segment.bytes, from + perShelf);
      const w = Math.max(2, (to - from) * scale);
      pieces.push({ segment, from, to, shelf, x, w, scale: w / (to - from) });
      from = to;
      x += w + gap;
      if (from < segment.bytes) { shelf++; x = 0; }
    }
  }
  return { pieces, shelves: pieces.length ? shelf + 1 : 0, perShelf, widened };
}

// The finest scale, in powers of two, at which everything takes few shelves; many small segments may take more.
function scaleFor(segments, width) {
  const total = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  let perShelf = 2 ** Math.max(20, Math.floor(Math.log2(Math.max(1, total / WANTED_SHELVES))));
  for (let tries = 0; tries < 3 && layShelves(segments, width, perShelf).shelves > WANTED_SHELVES; tries++) perShelf *= 2;
  return perShelf;
}

// Paints the shelves in sight. Gives how many blocks were too small for a pixel of their own.
function drawShelves(context, view, colours, top, height) {
  const { layout } = view;
  let merged = 0;
  for (const piece of layout.pieces) {
    const y = piece.shelf * SHELF - top + 2;
    if (y + SHELF < 0 || y > height) continue;
    drawPiece(context, piece, y, colours);
    merged += drawBlocks(context, view, piece, y, colours);
    // An outline would hide what is in a very narrow segment.
    if (piece.w < 5) continue;
    context.strokeStyle = colours.axis;
    context.lineWidth = 1;
    context.setLineDash(view.state.exact && piece.segment.blocks.length === 0 ? [3, 2] : []);
    context.strokeRect(piece.x + 0.5, y - 0.5, Math.max(1, piece.w - 1), BLOCK_HEIGHT + 1);
    context.setLineDash([]);
  }
  outlineChosen(context, view, colours, top);
  return merged;
}

function drawPiece(context, piece, y, colours) {
  context.fillStyle = colours.free;
  context.fillRect(piece.x, y, piece.w, BLOCK_HEIGHT);
}

function drawBlocks(context, view, piece, y, colours) {
  const { grouping, state } = view;
  const groups = state.exact ? grouping.groups(state.rows) : null;
  const { blocks } = piece.segment;
  let merged = 0;
  let painted = -1;
  for (let i = firstBlock(blocks, piece.from); i < blocks.length && blocks[i].start < piece.to; i++) {
    const block = blocks[i];
    const [x0, x1] = blockSpan(piece, block);
    const w = x1 - x0;
    if (w < 1 && Math.floor(x0) === painted) { merged++; continue; }
    if (w < 1) painted = Math.floor(x0);
    context.fillStyle = groups ? bandColour(colours, grouping.bands[groups[block.row]]) : view.largeColour(block);
    context.fillRect(x0, y, Math.max(w, 1), BLOCK_HEIGHT);
    if (block.pending) hatch(context, x0, y, Math.max(w, 1), colours);
    else drawTail(context, piece, block, y, colours);
    if (w > 4) { context.fillStyle = colours.panel; context.fillRect(x1 - 0.5, y, 0.5, BLOCK_HEIGHT); }
  }
  return merged;
}

// The first block that reaches beyond a place in its segment; blocks are sorted.
function firstBlock(blocks, from) {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle].start + blocks[middle].bytes <= from) low = middle + 1; else high = middle;
  }
  return low;
}

function blockSpan(piece, block) {
  const begin = clamp(block.start, piece.from, piece.to);
  const end = clamp(block.start + block.bytes, piece.from, piece.to);
  return [piece.x + (begin - piece.from) * piece.scale, piece.x + (end - piece.from) * piece.scale];
}

// What rounding added, paler at the block's end.
function drawTail(context, piece, block, y, colours) {
  const from = clamp(block.start + block.requested, piece.from, piece.to);
  const to = clamp(block.start + block.bytes, piece.from, piece.to);
  const w = (to - from) * piece.scale;
  if (w < 1) return;
  context.globalAlpha = 0.55;
  context.fillStyle = colours.panel;
  context.fillRect(piece.x + (from - piece.from) * piece.scale, y, w, BLOCK_HEIGHT);
  context.globalAlpha = 1;
}

function hatch(context, x, y, w, colours) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, BLOCK_HEIGHT);
  context.clip();
  context.strokeStyle = colours.panel;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = x - BLOCK_HEIGHT; at < x + w; at += 5) {
    context.moveTo(at, y + BLOCK_HEIGHT);
    context.lineTo(at + BLOCK_HEIGHT, y);
  }
  context.stroke();
  context.restore();
}

function outlineChosen(context, view, colours, top) {
  const chosen = view.focus.chosen;
  if (!chosen || chosen.rows !== view.state.rows) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 2;
  for (const piece of view.layout.pieces) {
    for (const block of piece.segment.blocks) {
      if (block.row !== chosen.row || block.start >= piece.to || block.start + block.bytes <= piece.from) continue;
      const [x0, x1] = blockSpan(piece, block);
      context.strokeRect(x0, piece.shelf * SHELF - top + 1, Math.max(3, x1 - x0), BLOCK_HEIGHT + 2);
    }
  }
}

// What lies at a place of the map: a segment, and the block or the hole in it.
function mapHit(layout, x, y) {
  const shelf = Math.floor(y / SHELF);
  if (y - shelf * SHELF > BLOCK_HEIGHT + 4) return null;
  const piece = layout.pieces.find(it => it.shelf === shelf && x >= it.x - 1 && x <= it.x + it.w + 1);
  if (!piece) return null;
  const { blocks, bytes } = piece.segment;
  const at = clamp(piece.from + (x - piece.x) / piece.scale, piece.from, piece.to - 1);
  // A block narrower than a pixel is hit within that pixel.
  const next = firstBlock(blocks, at - 0.5 / piece.scale);
  const block = blocks[next];
  if (block && block.start <= at + 0.5 / piece.scale) return { segment: piece.segment, block };
  const begin = next > 0 ? blocks[next - 1].start + blocks[next - 1].bytes : 0;
  return { segment: piece.segment, block: null, hole: { start: begin, bytes: (block ? block.start : bytes) - begin } };
}
