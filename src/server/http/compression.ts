import { pipeline, Readable, type Transform } from 'node:stream';
import { constants, createBrotliCompress, createGzip, createZstdCompress } from 'node:zlib';
import type { FastifyReply } from 'fastify';

/*
 * Levels are fast, because a response is compressed for one caller. Responses with secrets are never compressed: their
 * length would confirm guesses of the secret by the author of other text in it (BREACH). Event streams are not
 * compressed either, because events would arrive late or incomplete.
 */

/** Shorter responses fit into a packet or two. */
export const worthPacking = 2048;

const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_MODE, BROTLI_MODE_TEXT } = constants;
const packers: Record<string, () => Transform> = {
  zstd: () => createZstdCompress(),
  br: () => createBrotliCompress({ params: { [BROTLI_PARAM_QUALITY]: 4, [BROTLI_PARAM_MODE]: BROTLI_MODE_TEXT } }),
  gzip: () => createGzip({ level: 4 }),
};

/** The client's preference (RFC 9110 12.5.3). Among equals, the best compression for its time. */
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
  // The length and the ranges of the compressed response are unknown.
  reply.removeHeader('content-length').removeHeader('accept-ranges').header('content-encoding', encoding);
  return reply.send(pipeline(pieces, packer, () => {}));
}

/** Piece by piece, so that other requests get their turn. */
const longPiece = 256 * 1024;

function* piecesOf(text: string): Generator<Buffer> {
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = from + longPiece;
    if (/[\uD800-\uDBFF]/.test(text.charAt(to - 1))) to += 1; // the second half of a character stays with its first
    yield Buffer.from(text.slice(from, to));
  }
}
