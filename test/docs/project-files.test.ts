import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { checkFile, type CheckedFile } from '../../src/shared/documents/file.ts';
import { readFile } from '../../src/shared/documents/mistakes.ts';
import { parseYaml } from '../../src/shared/documents/yaml.ts';

const page = readFileSync(join(import.meta.dirname, '../../docs/project-files.md'), 'utf8');

interface Example {
  title: string;
  format: string;
  files: string[];
}

/** The files of each section that has two. */
const examples = page.split(/^## /m).flatMap((section): Example[] => {
  const fences = Array.from(section.matchAll(/^```(toml|yaml)\n(.*?)^```$/gms));
  const title = section.split('\n', 1)[0] ?? '';
  return fences.length === 2
    ? [{ title, format: fences[0]?.[1] ?? '', files: fences.map(([, , text = '']) => text) }]
    : [];
});

const read = async (text: string, format: string): Promise<CheckedFile> =>
  checkFile(await readFile(text, `example.${format}`, async (yaml) => parseYaml(yaml)));

describe('the page about files without repetition', () => {
  for (const { title, format, files } of examples)
    test(`${title}: both files come to the same`, async () => {
      const isShort = (text: string): boolean => /^\W*(extends|defaults)/m.test(text);
      const [longer = '', shorter = ''] = files.toSorted((a, b) => Number(isShort(a)) - Number(isShort(b)));
      assert.deepEqual([isShort(longer), isShort(shorter)], [false, true]);
      assert.deepEqual(await read(shorter, format), await read(longer, format));
    });

  test('has a small project, a monorepo and a release pipeline', () => {
    const titles = examples.slice(1).map(({ title }) => title);
    assert.deepEqual(titles, ['A small project', 'A monorepo', 'A release pipeline']);
  });
});
