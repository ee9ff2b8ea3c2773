import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress, createZstdDecompress } from 'node:zlib';
import { messageOf } from '../../shared/lib/error-code.ts';
import { flushFolderOf } from '../../shared/lib/folders.ts';

/**
 * A zstd file of lines that is complete or missing: it is renamed once it is on the disk. The last line has the other
 * lines' count and SHA-256, so a reader detects a cut or changed file. Only the owner may read it (0600).
 */
export class ArchiveError extends Error {
  constructor(file: string, why: string) {
    super(`${file} ${why}`);
    this.name = 'ArchiveError';
  }
}

/** Compressing single lines would cost too much. */
const pieceSize = 64 * 1024;
const newline = 0x0a;

export async function writeArchive(file: string, lines: AsyncIterable<string>): Promise<void> {
  refuseToReplace(file);
  const part = `${file}.part`;
  await rm(part, { force: true });
  try {
    const target = createWriteStream(part, { flags: 'wx', mode: 0o600, flush: true });
    await pipeline(Readable.from(withEnd(lines), { objectMode: false }), createZstdCompress(), target);
    refuseToReplace(file);
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  flushFolderOf(file);
}

function refuseToReplace(file: string): void {
  if (existsSync(file)) throw new ArchiveError(file, 'already exists: name a new file');
}

async function* withEnd(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  const digest = createHash('sha256');
  let count = 0;
  let piece = '';
  const handOver = (): Buffer => {
    const bytes = Buffer.from(piece);
    digest.update(bytes);
    piece = '';
    return bytes;
  };
  for await (const line of lines) {
    piece += `${line}\n`;
    count += 1;
    if (piece.length >= pieceSize) yield handOver();
  }
  yield handOver();
  yield Buffer.from(`${JSON.stringify({ end: { lines: count, sha256: digest.digest('hex') } })}\n`);
}

/** All lines but the last. At the end, either exactly the written lines were read or an ArchiveError is thrown. */
export async function* readArchive(file: string): AsyncGenerator<string> {
  const digest = createHash('sha256');
  let count = 0;
  let last: Buffer | undefined;
  for await (const line of splitLines(file)) {
    if (last) {
      digest.update(last).update('\n');
      count += 1;
      yield last.toString();
    }
    last = line;
  }
  const end = readEnd(last);
  if (!end) throw new ArchiveError(file, 'is not a complete backup: its end is missing');
  if (end.lines !== count || end.sha256 !== digest.digest('hex')) {
    throw new ArchiveError(file, 'was changed since it was written');
  }
}

async function* splitLines(file: string): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  try {
    const source = createReadStream(file);
    const plain = createZstdDecompress();
    source.on('error', (error) => plain.destroy(error));
    plain.on('error', () => {}); // bytes after the end may raise an error after the last read
    for await (const chunk of source.pipe(plain) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        yield Buffer.concat([...begun, chunk.subarray(from, at)]);
        begun = [];
        from = at + 1;
      }
      if (from < chunk.length) begun.push(chunk.subarray(from));
    }
  } catch (error) {
    throw new ArchiveError(file, `cannot be read: ${messageOf(error)}`);
  }
  if (begun.length > 0) throw new ArchiveError(file, 'is not a complete backup: its last line is cut');
}

function readEnd(line: Buffer | undefined): { lines: number; sha256: string } | undefined {
  const text = line?.toString() ?? '';
  if (!text.startsWith('{"end":')) return undefined;
  try {
    return (JSON.parse(text) as { end: { lines: number; sha256: string } }).end;
  } catch {
    return undefined;
  }
}
