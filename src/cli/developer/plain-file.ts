import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { codeOf } from '../../shared/lib/error-code.ts';
import { WrongUse } from './errors.ts';
import { words } from './text.ts';

/**
 * Reads at most one byte more than the limit. In an untrusted repository a link leads to the developer's other files, a
 * device never ends, and a pipe would block. Undefined if there is no file.
 */
export async function plainFile(path: string, limit: number): Promise<Buffer | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    const why =
      codeOf(error) === 'ELOOP' ? words`${path} is a link. Name the file itself.` : words`${path} cannot be read.`;
    throw new WrongUse(why);
  });
  if (file === undefined) return undefined;
  try {
    if (!(await file.stat()).isFile()) throw new WrongUse(words`${path} is not a regular file.`);
    const content = Buffer.alloc(limit + 1);
    let size = 0;
    for (let read = -1; read !== 0 && size < content.length; size += read)
      read = (await file.read(content, size, content.length - size)).bytesRead;
    return content.subarray(0, size);
  } finally {
    await file.close();
  }
}
