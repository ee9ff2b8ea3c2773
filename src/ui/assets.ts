import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import type { FastifyInstance } from 'fastify';
import packageJson from '../../package.json' with { type: 'json' };
import { packedOnce } from '../http/compression.ts';
import { sourceFile } from '../lib/source-files.ts';

/**
 * Stylesheet, icons and scripts of pages. The digest in each name changes with the content, so browsers may cache them
 * for ever.
 */
export interface Asset {
  path: string;
  type: string;
  content: () => string;
}

/** `known` is the source of the content, for the digest. */
function asset(name: string, ending: string, type: string, known: string, content = () => known): Asset {
  return { path: `/ui/${name}.${hash('sha256', known, 'hex').slice(0, 16)}.${ending}`, type, content };
}

const read = (file: string): string => readFileSync(sourceFile('ui', file), 'utf8');

export const stylesheet = asset('style', 'css', 'text/css; charset=utf-8', read('style.css'));

/** A file of a package that browsers get as it is; its version stands for its content. */
function packaged(name: '@xterm/xterm' | '@xterm/addon-fit', file: string, ending: string, type: string): Asset {
  const content = (): string =>
    readFileSync(sourceFile('..', 'node_modules', name, file), 'utf8').replace(/\n\/\/# sourceMappingURL=.*/, '');
  return asset(name.replaceAll(/\W+/g, '-').slice(1), ending, type, packageJson.dependencies[name], content);
}

export const terminalStyle = packaged('@xterm/xterm', 'css/xterm.css', 'css', 'text/css; charset=utf-8');

/** The icon shows a page's state by its colour and by its shape. */
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
  return asset(`icon-${name}`, 'svg', 'image/svg+xml', svg);
}

export const icons = Object.fromEntries(
  (Object.keys(iconMarks) as IconName[]).map((name) => [name, iconOf(name)]),
) as Record<IconName, Asset>;

/** A script for browsers, and the scripts that it imports, directly or not. */
export interface Script extends Asset {
  imports: ReadonlySet<Script>;
}

const javascript = 'text/javascript; charset=utf-8';

/** Modules of packages that ours import. */
const packages: Record<string, Script> = {
  '@xterm/xterm': { ...packaged('@xterm/xterm', 'lib/xterm.mjs', 'js', javascript), imports: new Set() },
  '@xterm/addon-fit': { ...packaged('@xterm/addon-fit', 'lib/addon-fit.mjs', 'js', javascript), imports: new Set() },
};

const scripts = new Map<string, Script>();

const named = /'(?:\.\/([\w-]+)\.ts|(@xterm\/[\w-]+)|script:([\w-]+))'/g;

/**
 * A file of `browser/` as browsers take it: without types, and with the names of its imports and workers
 * (`'script:NAME'`) replaced by their addresses. Types are removed on the first request: Node needs memory for that,
 * and a server that shows no pages should not use it.
 */
export function script(name: string): Script {
  const known = packages[name] ?? scripts.get(name);
  if (known) return known;
  const source = read(`browser/${name}.ts`);
  const imports = new Set<Script>();
  for (const [, own, packageName] of source.matchAll(named)) {
    const imported = own ?? packageName;
    const other = imported === undefined ? undefined : script(imported);
    if (other) for (const one of [other, ...other.imports]) imports.add(one);
  }
  const withAddresses = (text: string): string =>
    text.replaceAll(
      named,
      (_, own?: string, packageName?: string, started?: string) =>
        `'${script(own ?? packageName ?? started ?? '').path}'`,
    );
  const content = (): string => squeezed(withAddresses(stripTypeScriptTypes(source)));
  const made = { ...asset(name, 'js', javascript, withAddresses(source), content), imports };
  scripts.set(name, made);
  return made;
}

/** Removes the white space that the types left, and comments on lines of their own. */
function squeezed(text: string): string {
  return text
    .replaceAll(/^\s*\/\*[^]*?\*\/\s*$/gm, '')
    .replaceAll(/^\s*\/\/.*$/gm, '')
    .replaceAll(/[ \t]+$/gm, '')
    .replaceAll(/\n{2,}/g, '\n');
}

export function addAssets(server: FastifyInstance): void {
  const files = readdirSync(sourceFile('ui', 'browser')).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.d.ts'),
  );
  const all = [
    stylesheet,
    terminalStyle,
    ...Object.values(packages),
    ...Object.values(icons),
    ...files.map((file) => script(file.slice(0, -3))),
  ];
  for (const one of all) {
    const { path, type } = one;
    const send = packedOnce(() => one.content());
    server.get(path, { config: { provenBy: 'none' } }, ({ headers }, reply) =>
      send(
        headers['accept-encoding'],
        reply
          .type(type)
          .header('cache-control', 'public, max-age=31536000, immutable')
          .header('cross-origin-resource-policy', 'same-origin'),
      ),
    );
  }
}
