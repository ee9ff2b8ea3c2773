import { pipeline } from 'node:stream/promises';
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy';
import { ApiError } from '../../shared/errors.ts';
import { unreadable } from '../../shared/records/raw.ts';

/* A file of any size, as `curl -F archive=@file` and browsers send it. No other part is allowed. */

/** `contentType` is blank if the client sends one of the types for unknown files. */
export interface SentFile {
  contentType: string;
  content: AsyncIterable<Uint8Array>;
}

export function isMultipart(contentType: string): boolean {
  return /^multipart\/form-data\s*(?:;|$)/i.test(contentType);
}

/** The types that clients use for files of unknown type. */
const unknownTypes = new Set(['', 'text/plain', 'application/octet-stream']);

/** Other parts would need decoding, and no current client sends them. */
const plainEncodings = new Set(['', 'binary', '8bit', '7bit']);

/** Throws if another part comes first. The content throws if it is cut off. */
export function onlyFile(body: AsyncIterable<Buffer>, contentType: string, name: string): Promise<SentFile> {
  const found = Promise.withResolvers<SentFile>();
  const parser = parserFor(contentType);
  let file: BusboyFileStream | undefined;
  const fail = (error: ApiError): void => {
    found.reject(error);
    file?.destroy(error);
    parser.destroy(error);
  };
  parser.on('file', (field, part, _fileName, encoding, type) => {
    part.on('error', () => {}); // the reader gets the error
    if (!field || field.includes('\uFFFD') || !plainEncodings.has(encoding)) return fail(unreadable());
    if (file || field !== name) return fail(new ApiError('invalid_format', field));
    file = part;
    return found.resolve({ contentType: unknownTypes.has(type) ? '' : type, content: contentOf(part) });
  });
  const whole = pipeline(body, parser).then(
    () => found.reject(new ApiError('is_blank', name)),
    (error: unknown) => {
      fail(faultOf(error));
      throw error;
    },
  );
  whole.catch(() => {}); // the file may not be read to its end
  async function* contentOf(part: BusboyFileStream): AsyncGenerator<Uint8Array> {
    try {
      yield* part;
      await whole;
    } catch (error) {
      throw faultOf(error);
    } finally {
      parser.destroy();
    }
  }
  return found.promise;
}

/** Any other error of the parser means an unreadable body. */
function faultOf(error: unknown): ApiError {
  return error instanceof ApiError ? error : unreadable();
}

function parserFor(contentType: string): BusboyInstance {
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      isPartAFile: () => true,
      limits: { headerSize: 16 * 1024 },
    });
  } catch {
    throw unreadable(); // without a boundary
  }
}
