import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { mapYielding } from './event-loop.ts';

export interface ZipEntry {
  /** Relative, with slashes. */
  name: string;
  size: number;
  modifiedAt: Date;
}

/** The length is known, because sizes are. Files are stored uncompressed: large ones mostly are compressed already. */
export function zip<Entry extends ZipEntry>(
  entries: readonly Entry[],
  contentOf: (entry: Entry) => AsyncIterable<Uint8Array>,
): { length: number; content: Readable } {
  const archive = new ZipFile();
  const content = archive.outputStream as Readable;
  let file: Readable | undefined;
  const fail = (error: unknown): void => void content.destroy(error as Error);
  content.once('close', () => file?.destroy()); // yazl would leave it open
  archive.on('error', fail);
  for (const entry of entries) {
    const { name, size, modifiedAt: mtime } = entry;
    archive.addReadStreamLazy(name, { size, mtime, mode: 0o100644, compress: false }, (begin) => {
      file = Readable.from(contentOf(entry), { objectMode: false }).on('error', fail);
      begin(null, file);
    });
  }
  // For a longer list of files, the length that yazl reports is right only in this format.
  const listLength = entries.reduce((sum, { name }) => sum + 55 + Buffer.byteLength(name), 0);
  let length = 0;
  const setLength: (known: number) => void = (known) => (length = known);
  // yazl's types lack the argument.
  archive.end({ forceZip64Format: listLength >= 0xffff, comment: '' }, setLength as unknown as () => void);
  return { length, content };
}

/** No name leads out of the target folder, even with backslashes or a disk's letter. Equal names get a number. */
export async function zipNames(paths: readonly string[]): Promise<string[]> {
  const taken = new Set<string>();
  /** The last number of each name, so that thousands of equal names need no retries. */
  const numbers = new Map<string, number>();
  return mapYielding(paths, (path) => {
    const parts = path.replaceAll('\\', '_').split('/');
    const safe = parts
      .filter((part) => part !== '' && part !== '.')
      .map((part) => (part === '..' ? '__' : part))
      .join('/')
      .replace(/^([A-Za-z]):/, '$1_');
    const base = safe === '' ? '_' : safe;
    let name = base;
    for (let number = numbers.get(base) ?? 1; taken.has(name); numbers.set(base, number)) name = `${base}-${++number}`;
    taken.add(name);
    return name;
  });
}
