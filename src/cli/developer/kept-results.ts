import { createReadStream, existsSync } from 'node:fs';
import { mkdir, readdir, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import { download } from './download.ts';
import { words } from './text.ts';

/** Compiled dependencies, named once their digest is right. Those unused for a month are removed. */

interface Kept {
  folder: string;
  suite: string;
  layers: readonly { digest: string; dependency_id_str: string; name: string }[];
}

const month = 30 * 24 * 60 * 60 * 1000;

export function keptResults(client: Client, { folder, suite, layers }: Kept) {
  return async (digest: string, offset: number): Promise<AsyncIterable<Uint8Array> | undefined> => {
    const layer = layers.find((one) => one.digest === digest);
    // It becomes a path, and comes from the server.
    if (!layer || !/^[0-9a-f]{64}$/.test(digest)) return undefined;
    const file = join(folder, digest);
    if (!existsSync(file)) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await forget(folder);
      await fetchTo(client, file, { suite, layer, digest });
    }
    await utimes(file, new Date(), new Date());
    return createReadStream(file, { start: offset, highWaterMark: 1024 * 1024 });
  };
}

async function fetchTo(
  client: Client,
  file: string,
  { suite, layer, digest }: { suite: string; layer: Kept['layers'][number]; digest: string },
): Promise<void> {
  try {
    const query = { suite_id: suite, digest };
    const bytes = await client.bytes('result', { dependency_id: layer.dependency_id_str }, { query });
    await download(bytes, file, { what: `The software of ${layer.name}`, sha256: digest, mode: 0o600 });
  } catch (error) {
    if (error instanceof Failure && (error.kind === 'not_found' || error.kind === 'refused'))
      throw new Failure('refused', words`You may not download the compiled software of ${layer.name}. Ask its owner.`);
    throw error;
  }
}

async function forget(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = join(folder, name);
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > month) await rm(file, { force: true });
  }
}
