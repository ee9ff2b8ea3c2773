import { pipeline, Readable, type Transform } from 'node:stream';
import { constants, createBrotliCompress, createGzip, createZstdCompress } from 'node:zlib';
import type { FastifyReply } from 'fastify';

/*
 * Compresses long answers for clients that can unpack them. The levels are the fast ones: an answer is made for one
 * caller and not kept.
 *
 * Answers with secrets are never compressed: their length would tell a caller whose text is in the same answer how much
 * of the secret it guessed (BREACH). Neither are event streams, whose events would arrive late or incomplete.
 */

/** Shorter answers fit into a packet or two uncompressed. */
export const worthPacking = 2048;

const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_MODE, BROTLI_MODE_TEXT } = constants;
const packers: Record<string, () => Transform> = {
  zstd: () => createZstdCompress(),
  br: () => createBrotliCompress({ params: { [BROTLI_PARAM_QUALITY]: 4, [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT } }),
  gzip: () => createGzip({ level: 4 }),
};

/** The encoding that the client prefers (RFC 9110 12.5.3); among equals, the one that compresses best for its time. */
export function encodingFor(accepted: string | string[] | undefined): string | undefined {
  if (accepted === undefined) return undefined;
  const likings = new Map<string, number>();
  for (const one of String(accepted).toLowerCase().split(',')) {
    const [name = '', ...parameters] = one.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    likings.set(name, weight === undefined ? 1 : Number(weight));
  }
  let [best, liking]: [string | undefined, number] = [undefined, 0];
  for (const name of Object.keys(packers)) {
    const its = likings.get(name) ?? likings.get('*') ?? 0;
    if (its > liking) [best, liking] = [name, its];
  }
  return best;
}

/** Sends a long answer in an encoding that the client accepts. */
export function sendPacked(
  content: string | Readable,
  accepted: string | string[] | undefined,
  reply: FastifyReply,
): FastifyReply {
  const encoding = encodingFor(accepted);
  reply.header('vary', 'accept-encoding');
  if (encoding === undefined && typeof content === 'string' && content.length <= longPiece) return reply.send(content);
  const pieces = typeof content === 'string' ? Readable.from(piecesOf(content)) : content;
  const packer = encoding === undefined ? undefined : packers[encoding]?.();
  if (!packer) return reply.send(pieces);
  // The length and the ranges of the compressed answer are unknown.
  reply.removeHeader('content-length').removeHeader('accept-ranges').header('content-encoding', encoding);
  return reply.send(pipeline(pieces, packer, () => {}));
}

/** A longer text is encoded and encrypted piece by piece: others get their turn in between. */
const longPiece = 256 * 1024;

function* piecesOf(text: string): Generator<Buffer> {
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = from + longPiece;
    if (/[\uD800-\uDBFF]/.test(text.charAt(to - 1))) to += 1; // the second half of a character stays with its first
    yield Buffer.from(text.slice(from, to));
  }
}
