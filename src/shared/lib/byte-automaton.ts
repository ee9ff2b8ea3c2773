/*
 * Finds many byte strings at once: Aho and Corasick's automaton.
 *
 * The nodes of a tree are the patterns' prefixes. After each byte the automaton is on the node of the input's longest
 * suffix that is a prefix. If no pattern continues with the next byte, it falls back to the next shorter suffix. Its
 * work is linear in the input, whatever the patterns.
 *
 * Nodes are numbers, and the tree is a few typed arrays. A private key's forms make some hundred thousand nodes, which
 * as objects would need more memory than a compiler.
 */

export interface Automaton {
  /** A node's first child, and each child's next sibling. 0 means none: the root is never a child. */
  readonly child: Int32Array;
  readonly sibling: Int32Array;
  /** The byte on the way into a node. */
  readonly byte: Uint8Array;
  /** The root's children by byte, because that is where most bytes are looked up. */
  readonly root: Int32Array;
  /** The node of the longest shorter suffix. */
  readonly fallback: Int32Array;
  /** The length of a node's prefix. */
  readonly depth: Int32Array;
  /** The length of the longest pattern that ends at a node, or 0. */
  readonly longest: Int32Array;
  prefix(node: number): Buffer;
  readonly window: number;
  /**
   * How far the search may jump if no match began before the window. Indexed by the two bytes at the window's end
   * (first times 256 plus second). With 0, a match may begin at the window's start.
   */
  readonly jump: Uint8Array;
}

/** The patterns must have at least two bytes. */
export function compileAutomaton(patterns: readonly Buffer[]): Automaton {
  const size = 1 + patterns.reduce((sum, pattern) => sum + pattern.length, 0);
  const tree = {
    child: new Int32Array(size),
    sibling: new Int32Array(size),
    byte: new Uint8Array(size),
    root: new Int32Array(256),
    fallback: new Int32Array(size),
    depth: new Int32Array(size),
    longest: new Int32Array(size),
  };
  const owner = new Int32Array(size); // a pattern that passes through the node
  const nodes = growTree(tree, owner, patterns);
  linkFallbacks(tree, nodes);
  const prefix = (node: number): Buffer => patterns[owner[node] ?? 0]?.subarray(0, tree.depth[node]) ?? Buffer.alloc(0);
  return { ...tree, prefix, ...jumps(patterns) };
}

type Tree = Omit<Automaton, 'prefix' | 'window' | 'jump'>;

export function childOf(tree: Tree, node: number, byte: number): number {
  if (node === 0) return tree.root[byte] as number;
  let child = tree.child[node] as number;
  while (child !== 0 && tree.byte[child] !== byte) child = tree.sibling[child] as number;
  return child;
}

function growTree(tree: Tree, owner: Int32Array, patterns: readonly Buffer[]): number {
  let nodes = 1;
  for (const [index, pattern] of patterns.entries()) {
    let node = 0;
    for (const byte of pattern) {
      let next = childOf(tree, node, byte);
      if (next === 0) {
        next = nodes++;
        tree.byte[next] = byte;
        tree.depth[next] = (tree.depth[node] as number) + 1;
        tree.sibling[next] = tree.child[node] as number;
        tree.child[node] = next;
        owner[next] = index;
        if (node === 0) tree.root[byte] = next;
      }
      node = next;
    }
    tree.longest[node] = pattern.length;
  }
  return nodes;
}

/** Breadth first: a node's fallback is shorter than the node, so it is complete when the node needs it. */
function linkFallbacks(tree: Tree, nodes: number): void {
  const queue = new Int32Array(nodes);
  let end = 1;
  for (let at = 0; at < end; at++) {
    const node = queue[at] as number;
    for (let child = tree.child[node] as number; child !== 0; child = tree.sibling[child] as number) {
      queue[end++] = child;
      if (node === 0) continue; // children of the root fall back to the root
      const byte = tree.byte[child] as number;
      let shorter = tree.fallback[node] as number;
      let next = childOf(tree, shorter, byte);
      while (next === 0 && shorter !== 0) {
        shorter = tree.fallback[shorter] as number;
        next = childOf(tree, shorter, byte);
      }
      tree.fallback[child] = next;
      if (tree.longest[child] === 0) tree.longest[child] = tree.longest[next] as number;
    }
  }
}

/**
 * Every match begins with its pattern's first `window` bytes. If the window's last two bytes first occur k bytes before
 * the end of such a beginning, no match begins within k positions. If they occur in no beginning, only the second byte
 * can start a match.
 */
function jumps(patterns: readonly Buffer[]): Pick<Automaton, 'window' | 'jump'> {
  const window = patterns.reduce((shortest, pattern) => Math.min(shortest, pattern.length), 255);
  const jump = new Uint8Array(65536).fill(window - 1);
  for (const pattern of patterns) {
    for (let at = 0; at + 1 < window; at++) {
      const pair = ((pattern[at] as number) << 8) | (pattern[at + 1] as number);
      jump[pair] = Math.min(jump[pair] as number, window - 2 - at);
    }
  }
  return { window, jump };
}
