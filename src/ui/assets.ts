import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { packedOnce } from '../http/compression.ts';

/** What pages are dressed in. The digest in the name changes with the content, so browsers may keep each for ever. */
export interface Asset {
  path: string;
  type: string;
  content: string;
}

function asset(file: string, type: string): Asset {
  const content = readFileSync(join(import.meta.dirname, file), 'utf8');
  const [name = '', ending = ''] = file.split('.');
  return { path: `/ui/${name}.${hash('sha256', content, 'hex').slice(0, 16)}.${ending}`, type, content };
}

export const stylesheet = asset('style.css', 'text/css; charset=utf-8');
export const icon = asset('icon.svg', 'image/svg+xml');

export function addAssets(server: FastifyInstance): void {
  for (const { path, type, content } of [stylesheet, icon]) {
    const send = packedOnce(content);
    server.get(path, { config: { provenBy: 'none' } }, ({ headers }, reply) =>
      send(headers['accept-encoding'], reply.type(type).header('cache-control', 'public, max-age=31536000, immutable')),
    );
  }
}
