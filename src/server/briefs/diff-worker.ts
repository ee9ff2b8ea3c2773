import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { equalRuns } from './line-diff.ts';
import { LineReader } from './line-reader.ts';

/** A hash for each line of a piece, as it is or levelled. */
export interface LinesTask {
  kind: 'exact' | 'levelled';
  bytes: Uint8Array<ArrayBuffer>;
}

export interface CompareTask {
  kind: 'compare';
  a: Uint32Array<ArrayBuffer>;
  b: Uint32Array<ArrayBuffer>;
}

/** For `compare`, the equal runs (line-diff.ts). */
export type DiffAnswer = Uint32Array<ArrayBuffer>;

const lineBreak = 0x0a;

function exactHashes(bytes: Uint8Array): DiffAnswer {
  const { length } = bytes;
  let hashes = new Uint32Array(1 + (length >>> 4));
  let count = 0;
  for (let at = 0; at < length;) {
    let hash = 0x811c9dc5;
    for (; at < length && bytes[at] !== lineBreak; at += 1) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
    at += 1;
    if (count === hashes.length) {
      const more = new Uint32Array(2 * count);
      more.set(hashes);
      hashes = more;
    }
    hashes[count] = hash ^ (hash >>> 15);
    count += 1;
  }
  return hashes.slice(0, count);
}

function levelledHashes({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): DiffAnswer {
  const lines = new LineReader(Buffer.from(buffer, byteOffset, length));
  return Uint32Array.from({ length: lines.count }, (_, at) => lines.hash(at));
}

answerTasks(
  (task: LinesTask | CompareTask): DiffAnswer => {
    if (task.kind === 'compare') return Uint32Array.from(equalRuns(task.a, task.b));
    return task.kind === 'exact' ? exactHashes(task.bytes) : levelledHashes(task.bytes);
  },
  ({ buffer }) => [buffer],
);
