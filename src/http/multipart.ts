import { ApiError } from '../errors.ts';
import { unreadable } from './raw.ts';

/*
 * A file of any size in a multipart body, as `curl -F archive=@file` and a browser's form send it. It is read as it
 * arrives, so only the last piece is in memory. Such a body has this one part; any other part is refused by its name.
 */

/** The file, and the type that its sender named; no type where clients name the same one for every file. */
export interface SentFile {
  contentType: string;
  content: AsyncIterable<Uint8Array>;
}

export function isMultipart(contentType: string): boolean {
  return /^multipart\/form-data\s*(?:;|$)/i.test(contentType);
}

/** The head of a part holds its name and its type, and needs no more room. */
const longestHead = 16 * 1024;

/** The types that clients use for files of unknown type. */
const unknownTypes = new Set(['', 'text/plain', 'application/octet-stream']);

/** The file of that name. Throws when another part comes first; the content throws when it is cut off. */
export async function onlyFile(body: AsyncIterable<Buffer>, contentType: string, name: string): Promise<SentFile> {
  const arriving = new Arriving(body);
  try {
    const delimiter = Buffer.from(`\r\n--${boundaryOf(contentType)}`);
    // A line break precedes every delimiter but the first.
    if (!(await arriving.begins(delimiter.subarray(2)))) throw unreadable();
    if (!(await startsPart(arriving))) throw new ApiError('is_blank', name);
    const head = await readHead(arriving);
    if (head.name !== name) throw new ApiError('invalid_format', head.name);
    return { contentType: head.contentType, content: contentOf(arriving, delimiter) };
  } catch (error) {
    await arriving.close();
    throw error;
  }
}

function boundaryOf(contentType: string): string {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  if (boundary === undefined) throw unreadable();
  return boundary;
}

async function* contentOf(arriving: Arriving, delimiter: Buffer): AsyncGenerator<Uint8Array> {
  try {
    yield* arriving.upTo(delimiter);
    if (await startsPart(arriving)) throw new ApiError('invalid_format', (await readHead(arriving)).name);
    await arriving.rest();
  } finally {
    await arriving.close();
  }
}

/** After a delimiter: whether another part follows. */
async function startsPart(arriving: Arriving): Promise<boolean> {
  if (await arriving.begins(Buffer.from('--'))) return false;
  if (!(await arriving.begins(Buffer.from('\r\n')))) throw unreadable();
  return true;
}

async function readHead(arriving: Arriving): Promise<{ name: string; contentType: string }> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of arriving.upTo(Buffer.from('\r\n\r\n'))) {
    pieces.push(piece);
    size += piece.length;
    if (size > longestHead) throw unreadable();
  }
  const head = Buffer.concat(pieces).toString();
  const said = (header: string): string => new RegExp(`^${header}:(.*)$`, 'im').exec(head)?.[1]?.trim() ?? '';
  // Encoded parts would need decoding, and no current client sends them.
  if (!/^(?:|binary|8bit|7bit)$/i.test(said('content-transfer-encoding'))) throw unreadable();
  const [, rest] = /^form-data(.*)$/is.exec(said('content-disposition')) ?? [];
  const name = parameters(rest ?? '').get('name') ?? '';
  if (name === '' || name.includes('\uFFFD')) throw unreadable();
  const type = said('content-type');
  return { name, contentType: unknownTypes.has(type.toLowerCase()) ? '' : type };
}

/** Read one after the other, so that the text inside a file's name is not taken for a parameter. */
function parameters(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of text.matchAll(
    /\s*;\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/gy,
  )) {
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted ?? plain);
  }
  return found;
}

/** Arriving bytes, of which only the next few are held. */
class Arriving {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);

  constructor(body: AsyncIterable<Buffer>) {
    this.#source = body[Symbol.asyncIterator]();
  }

  /** Waits for one more piece; false at the end. */
  async #more(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done) return false;
    this.#held = this.#held.length === 0 ? next.value : Buffer.concat([this.#held, next.value]);
    return true;
  }

  /** Whether these bytes come next; if so, they are consumed. */
  async begins(expected: Buffer): Promise<boolean> {
    while (this.#held.length < expected.length) if (!(await this.#more())) return false;
    if (!this.#held.subarray(0, expected.length).equals(expected)) return false;
    this.#held = this.#held.subarray(expected.length);
    return true;
  }

  /** Everything before a mark; the bytes after it come next. */
  async *upTo(mark: Buffer): AsyncGenerator<Uint8Array> {
    for (;;) {
      const at = this.#held.indexOf(mark);
      // The mark may begin at the end of the held bytes.
      const settled = at >= 0 ? at : Math.max(0, this.#held.length - mark.length + 1);
      const piece = this.#held.subarray(0, settled);
      this.#held = this.#held.subarray(at >= 0 ? at + mark.length : settled);
      if (piece.length > 0) yield piece;
      if (at >= 0) return;
      if (!(await this.#more())) throw unreadable();
    }
  }

  /** The bytes after the last delimiter have no meaning, but must be read. */
  async rest(): Promise<void> {
    do this.#held = Buffer.alloc(0);
    while (await this.#more());
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
