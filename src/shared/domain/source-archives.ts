import { createGunzip, createZstdDecompress } from 'node:zlib';

/** Archives of dependencies, recognized by their first bytes, and their media types. */
export const archiveTypes = {
  tar: 'application/x-tar',
  'tar.gz': 'application/gzip',
  'tar.bz2': 'application/x-bzip2',
  'tar.xz': 'application/x-xz',
  'tar.zst': 'application/zstd',
  zip: 'application/zip',
} as const;

export type ArchiveKind = keyof typeof archiveTypes;

/** This much of an archive's start is enough to recognize it. */
export const headSize = 64 * 1024;
const tarBlock = 512;

const signatures: [kind: ArchiveKind, bytes: number[]][] = [
  ['tar.gz', [0x1f, 0x8b, 0x08]],
  ['tar.bz2', [0x42, 0x5a, 0x68]],
  ['tar.xz', [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]],
  ['tar.zst', [0x28, 0xb5, 0x2f, 0xfd]],
  ['zip', [0x50, 0x4b, 0x03, 0x04]],
];

/** Undefined for anything else. Checks the content of gzip and zstd. Node cannot read the other two kinds. */
export async function archiveKind(head: Buffer): Promise<ArchiveKind | undefined> {
  const kind = signatures.find(([, bytes]) => bytes.every((byte, at) => head[at] === byte))?.[0];
  if (kind === undefined) return isTar(head) ? 'tar' : undefined;
  const opened = kind === 'tar.gz' ? createGunzip() : kind === 'tar.zst' ? createZstdDecompress() : undefined;
  if (!opened) return kind;
  const inside: Buffer[] = [];
  let size = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  // One header is enough. A hostile archive could unpack to more than the machine's memory.
  opened.on('data', (piece: Buffer) => {
    inside.push(piece);
    size += piece.length;
    if (size >= tarBlock) resolve();
  });
  opened.on('error', () => resolve());
  opened.write(head, () => resolve()); // no end: the file goes on
  await promise;
  opened.destroy();
  return isTar(Buffer.concat(inside)) ? kind : undefined;
}

/** A tar header holds the sum of its bytes, with the sum's own eight bytes counted as blanks. */
function isTar(head: Buffer): boolean {
  if (head.length < tarBlock) return false;
  const stated = Number.parseInt(head.toString('latin1', 148, 156).replaceAll('\0', ' ').trim(), 8);
  let sum = 8 * 0x20;
  for (let at = 0; at < tarBlock; at += 1) if (at < 148 || at >= 156) sum += head[at] ?? 0;
  return stated === sum;
}
