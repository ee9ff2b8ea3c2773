import { existsSync } from 'node:fs';
import { rustToolchain, typescriptToolchain } from '../../test/support/toolchains.ts';

/** A project whose tool rebuilds only changed files, and stores its output in `out`. */
export interface Incremental {
  name: string;
  files: Record<string, string>;
  /** Another file in each turn. */
  change: (turn: number) => Record<string, string>;
  command: string;
  /** For `grep`: the output line for one file that the tool made. */
  made: RegExp;
  /** Folders that builds must see in addition to `/usr`. */
  paths: string[];
}

const cFiles = 2000;
const sources = Array.from({ length: cFiles }, (_, at) => `src/${at % 50}/file${at}.c`);
const object = (source: string): string => source.replace(/^src(.*)c$/, 'out$1o');
const cFile = (source: string, turn: number): Record<string, string> => {
  const at = sources.indexOf(source);
  return { [source]: `#include "common.h"\nint f${at}(int x) { return x * FACTOR + ${at + turn}; }\n` };
};
const c = {
  files: Object.assign({ 'src/common.h': '#define FACTOR 3\n' }, ...sources.map((source) => cFile(source, 0))),
  change: (turn: number) => cFile(sources[turn * 100] ?? '', turn),
  made: /-c -o/,
  paths: [],
};

export const make: Incremental | string = !existsSync('/usr/bin/cc')
  ? 'there is no cc'
  : {
      ...c,
      name: `make, ${cFiles} C files`,
      files: {
        ...c.files,
        Makefile: `OBJECTS := $(patsubst src/%.c,out/%.o,$(wildcard src/*/*.c))
out/all.a: $(OBJECTS)
\tar rcs $@ $^
out/%.o: src/%.c
\t@mkdir -p $(@D)
\tcc -Isrc -MMD -c -o $@ $<
-include $(wildcard out/*/*.d)
`,
      },
      command: 'make -j2',
    };

export const ninja: Incremental | string =
  typeof make === 'string' || !existsSync('/usr/bin/ninja')
    ? 'there is no cc or no ninja'
    : {
        ...c,
        name: `ninja, ${cFiles} C files`,
        files: {
          ...c.files,
          'build.ninja': `builddir = out
rule cc
  command = cc -Isrc -MMD -MF $out.d -c -o $out $in
  depfile = $out.d
  deps = gcc
rule ar
  command = ar rcs $out $in
${sources.map((source) => `build ${object(source)}: cc ${source}\n`).join('')}
build out/all.a: ar ${sources.map(object).join(' ')}
`,
        },
        command: 'ninja -v',
      };

const parts = 20;
const eachPart = (files: (part: number) => Record<string, string>): Record<string, string> =>
  Object.assign({}, ...Array.from({ length: parts }, (_, part) => files(part)));

const crate = (name: string, more = ''): string =>
  `[package]\nname = "${name}"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n${more}`;
const library = (part: number, turn: number): Record<string, string> => ({
  [`part${part}/src/lib.rs`]: `pub fn value() -> usize { ${part + turn} }\n`,
});

export async function cargo(): Promise<Incremental | string> {
  const toolchain = await rustToolchain();
  if (toolchain === undefined) return 'there is no cargo';
  const named = (line: (part: number) => string): string =>
    Array.from({ length: parts }, (_, part) => line(part)).join('');
  return {
    name: `cargo, a workspace of ${parts + 1} crates`,
    files: {
      'Cargo.toml': '[workspace]\nmembers = ["app", "part*"]\nresolver = "2"\n',
      ...eachPart((part) => ({ [`part${part}/Cargo.toml`]: crate(`part${part}`), ...library(part, 0) })),
      'app/Cargo.toml': crate(
        'app',
        named((part) => `part${part} = { path = "../part${part}" }\n`),
      ),
      'app/src/main.rs': `fn main() { println!("{}", ${named((part) => `part${part}::value() + `)}0); }\n`,
    },
    change: (turn) => library(turn, turn),
    command: `export PATH=${[...toolchain.bin, '$PATH'].join(':')} CARGO_TARGET_DIR=out; cargo build --offline`,
    made: /Compiling/,
    paths: toolchain.paths,
  };
}

const shown = typescriptToolchain();
if (shown === undefined)
  throw new Error('builds cannot be shown the folder of the working copy, so tsc is not to be had');
const { bin, paths } = shown;
const module = (part: number, at: number, turn: number): Record<string, string> => ({
  [`part${part}/file${at}.ts`]: `export const value${at}: number = ${part + turn};\n`,
});
const compilerOptions = (part: number): string =>
  JSON.stringify({
    compilerOptions: {
      composite: true,
      rootDir: '.',
      outDir: `../out/part${part}`,
      tsBuildInfoFile: `../out/part${part}.tsbuildinfo`,
      types: [],
    },
    include: ['*.ts'],
  });
export const typescript: Incremental = {
  name: `tsc -b, ${parts} projects of 20 files`,
  files: {
    'tsconfig.json': JSON.stringify({
      files: [],
      references: Array.from({ length: parts }, (_, part) => ({ path: `part${part}` })),
    }),
    ...eachPart((part) => ({
      [`part${part}/tsconfig.json`]: compilerOptions(part),
      ...Object.assign({}, ...Array.from({ length: 20 }, (_, at) => module(part, at, 0))),
    })),
  },
  change: (turn) => module(turn, turn, turn),
  command: `PATH=${bin.join(':')}:$PATH tsc -b --verbose`,
  made: /Building project/,
  paths,
};
