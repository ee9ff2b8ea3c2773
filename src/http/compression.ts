import { Readable, type Transform } from 'node:stream';
import { promisify } from 'node:util';
import {
  brotliCompress,
  constants,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  gzip,
  zstdCompress,
} from 'node:zlib';
import type { FastifyReply } from 'fastify';

/*
 * Compresses long answers for clients that can unpack them. The levels are the fast ones: an answer is made for one
 * caller and not kept.
 *
 * Answers with secrets are never compressed: their length would tell a caller whose text is in the same answer how much
 * of the secret it guessed (BREACH). Neither are event streams, whose events would arrive late or incomplete.
 */

export type Encoding = 'zstd' | 'br' | 'gzip';

/** Shorter answers fit into a packet or two uncompressed. */
export const worthPacking = 2048;

const zstdOptions = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };
const brotliOptions = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT },
};
const gzipOptions = { level: 4 };

const ways: Record<Encoding, { whole(bytes: Buffer): Promise<Buffer>; stream(): Transform }> = {
  zstd: {
    whole: (bytes) => promisify(zstdCompress)(bytes, zstdOptions),
    stream: () => createZstdCompress(zstdOptions),
  },
  br: {
    whole: (bytes) => promisify(brotliCompress)(bytes, brotliOptions),
    stream: () => createBrotliCompress(brotliOptions),
  },
  gzip: {
    whole: (bytes) => promisify(gzip)(bytes, gzipOptions),
    stream: () => createGzip(gzipOptions),
  },
};

/** The encoding that the client prefers (RFC 9110 12.5.3); among equals, the one that compresses best for its time. */
export function encodingFor(accepted: string | string[] | undefined): Encoding | undefined {
  if (accepted === undefined) return undefined;
  const likings = new Map<string, number>();
  for (const one of String(accepted).toLowerCase().split(',')) {
    const [name = '', ...parameters] = one.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    likings.set(name, weight === undefined ? 1 : Number(weight));
  }
  let [best, liking]: [Encoding | undefined, number] = [undefined, 0];
  for (const name of Object.keys(ways) as Encoding[]) {
    const its = likings.get(name) ?? likings.get('*') ?? 0;
    if (its > liking) [best, liking] = [name, its];
  }
  return best;
}

/** Sends a long text in an encoding that the client accepts. */
export async function sendPacked(
  text: string,
  accepted: string | undefined,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const encoding = encodingFor(accepted);
  reply.header('vary', 'accept-encoding');
  if (encoding === undefined) return text.length > longPiece ? sendInPieces(text, reply) : reply.send(text);
  const bytes = await ways[encoding].whole(Buffer.from(text));
  return reply.header('content-encoding', encoding).send(bytes);
}

/** A longer text is encoded and encrypted piece by piece: others get their turn in between. */
const longPiece = 256 * 1024;

function sendInPieces(text: string, reply: FastifyReply): FastifyReply {
  function* pieces(): Generator<Buffer> {
    for (let from = 0, to = 0; from < text.length; from = to) {
      to = from + longPiece;
      if (/[\uD800-\uDBFF]/.test(text.charAt(to - 1))) to += 1; // the second half of a character stays with its first
      yield Buffer.from(text.slice(from, to));
    }
  }
  return reply.header('content-length', Buffer.byteLength(text)).send(Readable.from(pieces()));
}

/** A constant answer is compressed once for each encoding. */
export function packedOnce(
  make: () => string,
): (accepted: string | undefined, reply: FastifyReply) => Promise<FastifyReply> {
  const packed = new Map<Encoding, Promise<Buffer>>();
  return async (accepted, reply) => {
    const encoding = encodingFor(accepted);
    reply.header('vary', 'accept-encoding');
    if (encoding === undefined) return reply.send(make());
    const bytes = packed.get(encoding) ?? ways[encoding].whole(Buffer.from(make()));
    packed.set(encoding, bytes);
    return reply.header('content-encoding', encoding).send(await bytes);
  };
}

export function packing(encoding: Encoding): Transform {
  return ways[encoding].stream();
}
