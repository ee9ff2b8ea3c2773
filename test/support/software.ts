import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import type { Caller, Item } from './installation.ts';
import { growingPauses } from './pauses.ts';

export type Sources = Record<string, string>;

/** How to make each kind of archive on any Debian, with the usual programs. */
const makers = {
  tar: ['tar', '-cf'],
  'tar.gz': ['tar', '-czf'],
  'tar.bz2': ['bsdtar', '-cjf'],
  'tar.xz': ['bsdtar', '-cJf'],
  'tar.zst': ['bsdtar', '--zstd', '-cf'],
  zip: ['bsdtar', '--format=zip', '-cf'],
} as const;

export type Kind = keyof typeof makers;
export const kinds = Object.keys(makers) as Kind[];

const packed = new Map<string, Promise<Buffer>>();

/** An archive of these files, as a person would pack it. The same one is packed once. */
export function archiveOf(files: Sources, kind: Kind = 'tar.gz'): Promise<Buffer> {
  const key = JSON.stringify([kind, files]);
  const known = packed.get(key) ?? pack(files, kind);
  packed.set(key, known);
  return known;
}

async function pack(files: Sources, kind: Kind): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-sources-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      const path = join(folder, 'tree', name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content, { mode: content.startsWith('#!') ? 0o755 : 0o644 });
    }
    // The same files always make the same archive.
    await run('find', [join(folder, 'tree'), '-exec', 'touch', '-d', '2026-01-01', '{}', '+']);
    const [program, ...flags] = makers[kind];
    const file = join(folder, 'packed');
    const made = await run(program, [...flags, file, '-C', join(folder, 'tree'), '.']);
    if (made.status !== 0) throw new Error(made.stderr.toString());
    return readFileSync(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const settled = new Set(['compiled', 'compile_failed', 'shared']);

/** Actions on a dependency, named as its owner would. */
export function dependenciesOf(api: () => Caller) {
  const pathOf = ({ id_str: id, id_ref: ref }: Item): string => `/dependencies/${id ?? String(ref)}`;
  const fetch = (dependency: Item): Promise<Item> => api().get(pathOf(dependency));
  const end = async (dependency: Item): Promise<Item> => {
    for (const wait = growingPauses(); ; await wait()) {
      const now = await fetch(dependency);
      if (settled.has(String(now.marketplace_state))) return now;
    }
  };
  const describe = async (fields: Record<string, string>): Promise<Item> =>
    fetch(await api().post('/dependencies', fields));
  const upload = (dependency: Item, archive: Uint8Array): Promise<Item> =>
    api().upload(`${pathOf(dependency)}/archive`, archive);
  const log = (dependency: Item): Promise<string> => api().text(`${pathOf(dependency)}/log.txt`);
  return {
    describe,
    upload,
    fetch,
    end,
    log,
    change: (dependency: Item, fields: Record<string, string>) => api().put(pathOf(dependency), fields),
    /** Creates, uploads and compiles, and returns the result, good or bad. */
    async compile(fields: Record<string, string>, archive: Uint8Array): Promise<Item> {
      const dependency = await describe(fields);
      await upload(dependency, archive);
      return end(dependency);
    },
    async untilLogged(dependency: Item, said: RegExp): Promise<void> {
      for (const wait = growingPauses(); !said.test(await log(dependency)); await wait());
    },
  };
}

/** A library, and a program that needs it to start: it works only if libraries are found. */
export const greeter: Sources = {
  'greet.c': '#include <stdio.h>\nvoid greet(const char *whom) { printf("hello, %s\\n", whom); }\n',
  'greet.h': 'void greet(const char *whom);\n',
  'main.c': '#include "greet.h"\nint main(int n, char **v) { greet(n > 1 ? v[1] : "world"); return 0; }\n',
  Makefile: `PREFIX ?= /nowhere
all: libgreet.so greet
libgreet.so: greet.c
	cc -shared -fPIC -o $@ greet.c
greet: main.c libgreet.so
	cc -o $@ main.c -L. -lgreet
install: all
	mkdir -p $(PREFIX)/bin $(PREFIX)/lib $(PREFIX)/include
	cp greet $(PREFIX)/bin
	cp libgreet.so $(PREFIX)/lib
	cp greet.h $(PREFIX)/include
`,
};
