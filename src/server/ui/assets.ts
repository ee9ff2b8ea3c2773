import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { sendPacked } from '../http/compression.ts';
import { mainProgram, sourceFile } from '../../shared/lib/source-files.ts';

/** The digest in each name changes with the content, so browsers may cache the file for ever. */
interface Asset {
  name: string;
  path: string;
  type: string;
  content: string;
}

const entries = {
  'style.css': ['text/css; charset=utf-8', 'style.css'],
  'main.js': ['text/javascript; charset=utf-8', 'browser/main.ts'],
  'changes-worker.js': ['text/javascript; charset=utf-8', 'browser/changes-worker.ts'],
  'shell.js': ['text/javascript; charset=utf-8', 'browser/shell.ts'],
  'passkeys.js': ['text/javascript; charset=utf-8', 'browser/passkeys.ts'],
  'terminal.css': ['text/css; charset=utf-8', 'terminal.css'],
} as const;

type Name = keyof typeof entries | `icon-${IconName}.svg`;

function asset(name: string, type: string, content: string): Asset {
  const [base, ending] = name.split('.');
  return { name, path: `/ui/${base}.${hash('sha256', content, 'hex').slice(0, 16)}.${ending}`, type, content };
}

const iconMarks = {
  plain: ['#0a6480', 'M5 12c4-4 7-4 11 0s7 4 11 0M5 21c4-4 7-4 11 0s7 4 11 0'],
  good: ['#11663a', 'M8 17l6 6 11-13'],
  bad: ['#9c1f2e', 'M9 9l14 14M23 9l-14 14'],
  busy: ['#8a5a00', 'M16 6a10 10 0 1 1-10 10'],
  idle: ['#51606f', 'M9 16h14'],
} as const;

export type IconName = keyof typeof iconMarks;

function iconOf(name: IconName): Asset {
  const [ground, path] = iconMarks[name];
  const shape = name === 'plain' ? '<rect width="32" height="32" rx="7" ' : '<circle cx="16" cy="16" r="16" ';
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${shape}fill="${ground}"/><path d="${path}" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/></svg>`;
  return asset(`icon-${name}.svg`, 'image/svg+xml', svg);
}

/** A bundled program has the file next to it (scripts/setup.sh). From sources, the file is bundled now. */
function built(entry: string, name: string): string {
  const ready = join(dirname(mainProgram), 'pages', name);
  if (existsSync(ready)) return readFileSync(ready, 'utf8');
  const esbuild = sourceFile('..', 'node_modules', '@esbuild', `linux-${process.arch}`, 'bin', 'esbuild');
  return execFileSync(esbuild, ['--bundle', '--minify', '--format=esm', sourceFile('server', 'ui', entry)], {
    encoding: 'utf8',
  });
}

let made: Map<string, Asset> | undefined;

function assets(): Map<string, Asset> {
  const files = Object.entries(entries).map(([name, [type, entry]]) => asset(name, type, built(entry, name)));
  const icons = (Object.keys(iconMarks) as IconName[]).map(iconOf);
  return new Map([...files, ...icons].map((one) => [one.name, one]));
}

export function addressOf(name: Name): string {
  made ??= assets();
  return made.get(name)?.path ?? '';
}

export function addAssets(server: FastifyInstance): void {
  made ??= assets();
  for (const { path, type, content } of made.values()) {
    server.get(path, { config: { provenBy: 'none' } }, ({ headers }, reply) => {
      reply
        .type(type)
        .header('cache-control', 'public, max-age=31536000, immutable')
        .header('cross-origin-resource-policy', 'same-origin');
      return sendPacked(content, headers['accept-encoding'], reply);
    });
  }
}
