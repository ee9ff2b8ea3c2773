import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { parse } from 'smol-toml';
import { RefusedError } from '../src/shared/documents/mistakes.ts';
import { parseYaml } from '../src/shared/documents/yaml.ts';
import { importFiles, reference } from '../src/shared/imports/index.ts';
import { mutated } from './mutations.ts';
import { pure } from './target.ts';

const packed = readFileSync(join(import.meta.dirname, '../test/fixtures/workflows/npm.json.br'));
const corpus = JSON.parse(String(brotliDecompressSync(packed))) as { path: string; text: string }[];
const others = [
  'stages: [a, b]\nvariables: { A: 1 }\na: { script: [x, !reference [.c, script]], rules: [{ if: $CI_COMMIT_TAG }], cache: { paths: [x] } }\n.c: { script: y }\nb: { extends: .c, needs: [a], parallel: { matrix: [{ P: [1, 2] }] }, only: [main, /x/] }\n',
  'kind: pipeline\nname: a\nsteps: [{ name: x, image: a, commands: [b], environment: { T: { from_secret: t } }, when: { event: [push], status: [failure] } }]\nservices: [{ name: d, image: e }]\ntrigger: { branch: [main] }\n---\nkind: pipeline\nname: b\ndepends_on: [a]\nsteps: [{ name: y, image: z, commands: [c] }]\n',
];
const paths = ['.github/workflows/a.yml', '.gitlab-ci.yml', '.drone.yml', '.woodpecker.yml', '.travis.yml'];
const good = fc.constantFrom(...corpus.map(({ text }) => text), ...others).map((text) => Buffer.from(text));

const yaml = (text: string) => Promise.resolve(parseYaml(text, [reference]));

const sections = ['parameters', 'schedules', 'suites', 'variables'];

/** What a file becomes is a file of these sections alone, or a refusal in words. */
export const imports = pure(
  'imports',
  200,
  fc.asyncProperty(mutated(good), fc.constantFrom(...paths), async (bytes, path) => {
    try {
      const { text, carried, total, lost } = await importFiles([{ path, text: bytes.toString() }], { parseYaml: yaml });
      assert.deepEqual(
        Object.keys(parse(text)).filter((name) => !sections.includes(name)),
        [],
      );
      assert.equal(total, carried + lost.length);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
    }
  }),
);
