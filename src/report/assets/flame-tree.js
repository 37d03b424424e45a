// The tree behind a flame graph: bytes per stack node for a measure, with or without library frames. Owns sums and
// places; flame.js shows them. Nothing here recurses, stacks may be of any depth.

const FLAME_MEASURES = {
  held: 'live at the peak', total: 'all bytes allocated', moment: 'live at the chosen moment',
};

// Own bytes of every stack node, and of allocations without a stack.
function ownBytes(device, measure, moment) {
  if (measure !== 'moment') return { own: device.stacks[measure], none: device.header.no_stack?.[measure] ?? 0, exact: true };
  const own = new Float64Array(device.stacks.parent.length);
  const rows = device.windowOver(moment) ?? device.large;
  let none = 0;
  rows?.eachActive(moment, (row, pending) => {
    if (pending) return;
    const stack = device.kinds.stack[rows.kind[row]];
    if (stack > 0) own[stack - 1] += rows.bytes[row]; else none += rows.bytes[row];
  });
  return { own, none, exact: device.windowOver(moment) !== null };
}

// A tree of {parent, frame, own, sum, depth, children}; node 0 is the root, whose sum is the whole. With `yours`,
// frames of files without a line of the table of lines are left out, and what they held goes to their callers.
function flameTree(device, { own, none }, yours) {
  const tree = { parent: [-1], frame: [-1], own: [0], sum: [0], depth: [0], children: [[]] };
  const { parent, frame } = device.stacks;
  const kept = yours ? yourFrames(device) : null;
  const place = new Int32Array(parent.length);
  const known = new Map();
  for (let i = 0; i < parent.length; i++) {
    const above = parent[i] === 0 ? 0 : place[parent[i] - 1];
    place[i] = kept && !kept[frame[i]] ? above : childOf(tree, known, above, frame[i]);
    tree.own[place[i]] += own[i];
  }
  // -2: the node of allocations without a stack.
  if (none > 0) tree.own[childOf(tree, known, 0, -2)] += none;
  for (let i = tree.own.length - 1; i >= 0; i--) {
    tree.sum[i] += tree.own[i];
    if (i > 0) tree.sum[tree.parent[i]] += tree.sum[i];
  }
  for (const children of tree.children) children.sort((a, b) => tree.sum[b] - tree.sum[a] || a - b);
  return tree;
}

function childOf(tree, known, above, frame) {
  const key = above * 2 ** 26 + frame + 2;
  let node = known.get(key);
  if (node !== undefined) return node;
  node = tree.parent.length;
  known.set(key, node);
  tree.parent.push(above);
  tree.frame.push(frame);
  tree.own.push(0);
  tree.sum.push(0);
  tree.depth.push(tree.depth[above] + 1);
  tree.children.push([]);
  tree.children[above].push(node);
  return node;
}

function yourFrames(device) {
  const files = new Set(device.lines.file);
  return Uint8Array.from(device.frames.file, file => (files.has(file) ? 1 : 0));
}

// Places of the nodes to show: the zoomed node and what is above it over the whole width, what is below in
// proportion. Nodes narrower than `least` pixels are left out and counted.
function flamePlaces(tree, zoomed, width, least) {
  const places = [];
  let hidden = 0;
  for (let node = zoomed; node >= 0; node = tree.parent[node]) places.push({ node, x: 0, w: width, above: node !== zoomed });
  const open = [{ node: zoomed, x: 0 }];
  const scale = tree.sum[zoomed] > 0 ? width / tree.sum[zoomed] : 0;
  while (open.length) {
    const { node, x } = open.pop();
    let at = x;
    for (const child of tree.children[node]) {
      const w = tree.sum[child] * scale;
      if (w >= least) {
        places.push({ node: child, x: at, w, above: false });
        open.push({ node: child, x: at });
      } else if (tree.sum[child] > 0) hidden++;
      at += w;
    }
  }
  return { places, hidden };
}

// Which nodes match, and the bytes of all that lies at or below a match, each counted once.
function flameSearch(tree, text, nameOf) {
  const wanted = text.toLowerCase();
  const matches = new Uint8Array(tree.parent.length);
  const below = new Uint8Array(tree.parent.length);
  let bytes = 0;
  for (let node = 1; node < matches.length; node++) {
    if (nameOf(node).toLowerCase().includes(wanted)) matches[node] = 1;
    const above = below[tree.parent[node]];
    if (matches[node] && !above) bytes += tree.sum[node];
    below[node] = above || matches[node];
  }
  return { matches, bytes };
}
