import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { stringify as yamlOf } from 'yaml';
import { stringify as tomlOf } from 'smol-toml';
import { readDocument } from '../../src/shared/documents/document.ts';
import { checkFile } from '../../src/shared/documents/file.ts';
import { readFile, RefusedError, type DocumentFile } from '../../src/shared/documents/mistakes.ts';
import { parseYaml } from '../../src/shared/documents/yaml.ts';
import { ApiError } from '../../src/shared/errors.ts';

const read = (text: string, path: string): Promise<DocumentFile> =>
  readFile(text, path, async (yaml) => parseYaml(yaml));

async function mistakesIn(text: string, path = 'a.toml'): Promise<string[]> {
  try {
    checkFile(await read(text, path));
    return [];
  } catch (error) {
    if (error instanceof RefusedError) return error.lines;
    throw error;
  }
}

const steps = [{ name: 's', command: 'true' }];
const rules = [{ subject: 'commit.ref', operator: 'equals', value: 'main' }];

const document = {
  defaults: { image: 'alpine', timeout: 60, tags: ['a', 'b'], rules, command: 'of all' },
  templates: {
    slow: { timeout: 600, steps },
    unit: { extends: 'slow', cache: ['target'], description: 'of the template' },
  },
  suites: [
    { name: 'unit', extends: 'unit', tags: [], variables: [{ name: 'V', keep: true }] },
    { name: 'lint', extends: 'late', command: 'lint' },
    { name: 'late', extends: 'unit', timeout: 0, description: '', variables: [{ name: 'W', keep: true }] },
    { name: 'plain', rules: [] },
  ],
};
const plain = [
  {
    name: 'unit',
    tags: [],
    variables: [{ name: 'V', keep: true }],
    cache: ['target'],
    description: 'of the template',
    timeout: 600,
    steps,
    image: 'alpine',
    rules,
  },
  {
    name: 'lint',
    command: 'lint',
    timeout: 0,
    description: '',
    cache: ['target'],
    image: 'alpine',
    tags: ['a', 'b'],
    rules,
  },
  {
    name: 'late',
    timeout: 0,
    description: '',
    variables: [{ name: 'W', keep: true }],
    cache: ['target'],
    steps,
    image: 'alpine',
    tags: ['a', 'b'],
    rules,
  },
  { name: 'plain', rules: [], image: 'alpine', timeout: 60, tags: ['a', 'b'], command: 'of all' },
];

describe('fields that suites take from templates, suites and defaults', () => {
  it('come to the same in TOML, YAML and JSON, whatever the order', async () => {
    for (const [path, text] of [
      ['a.toml', tomlOf(document)],
      ['a.yml', yamlOf(document)],
      ['a.json', JSON.stringify(document)],
    ] as const) {
      const file = await read(text, path);
      assert.deepEqual(JSON.parse(JSON.stringify(file.plain)), { suites: plain }, path);
      assert.deepEqual(await mistakesIn(text, path), [], path);
    }
  });

  it('have their mistakes told once, where they are written', async () => {
    const text = `[defaults]
nme = 1
name = "x"
extends = "rust"

[templates.rust]
comand = "cargo test"
retries = 9
[templates.rust.variables]
x = 1

[templates.unused]
timeout = "long"
[[templates.unused.rules]]
subject = "commit.ref"
operator = "matches"
value = "("

[templates."a]["]
retries = 8

[[suites]]
name = "unit"
extends = "rust"
command = "x"

[[suites]]
name = "too"
extends = "rust"
command = "x"

[[suites]]
name = "brackets"
extends = "a]["
command = "x"
needs = ["nobody"]

[[suites]]
name = "heir"
extends = "brackets"
`;
    assert.deepEqual(await mistakesIn(text), [
      'a.toml:2: defaults[nme] is not known.',
      'a.toml:3: defaults[name] is never handed on: write it in the suite.',
      'a.toml:4: defaults[extends] is not known: only suites and templates extend others.',
      'a.toml:7: templates[rust][comand] is not known.',
      'a.toml:8: templates[rust][retries] must be a whole number from 0 to 3.',
      'a.toml:9: templates[rust][variables] is never handed on: write it in the suite.',
      'a.toml:13: templates[unused][timeout] must be a whole number from 0 to 2592000.',
      'a.toml:17: templates[unused][rules][0][value] is "(", which is not a regular expression in the syntax of RE2 with at most 300 parts.',
      'a.toml:20: templates[a][][retries] must be a whole number from 0 to 3.',
      'a.toml:36: suites[brackets][needs] names "nobody", which is not a suite of the file.',
    ]);
  });

  it('are refused where names and circles are wrong, without mistakes that follow from these', async () => {
    const text = `templates:
  a: {extends: b}
  b: {extends: a}
  c: 3
suites:
  - {name: in-circle, extends: a}
  - {name: unknown, extends: nobody, root: true}
  - {name: self, extends: self}
  - {name: number, extends: 3}
  - {name: heir, extends: unknown}
  - {name: none, extends: ""}
`;
    assert.deepEqual(await mistakesIn(text, 'a.yml'), [
      'a.yml:3: templates[b][extends] is a cycle: "a" extends "b" extends "a".',
      'a.yml:4: templates[c] must be a table.',
      'a.yml:7: suites[unknown][extends] names "nobody", which is no template and no suite of the file.',
      'a.yml:8: suites[self][extends] is a cycle: "self" extends "self".',
      'a.yml:9: suites[number][extends] must be text.',
      'a.yml:11: suites[none][command] is missing: a suite has a command or steps.',
    ]);
    assert.deepEqual(await mistakesIn('templates: 3\ndefaults: [1]\n', 'a.yml'), [
      'a.yml:1: templates must be a table.',
      'a.yml:2: defaults must be a table.',
    ]);
  });

  it('are refused where they are written to exhaust their reader', async () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `t${at}`);
    const heirs = names(100).map((name) => `[[suites]]\nname = "${name}"\nextends = "x"\n`);
    assert.deepEqual(await mistakesIn(`[templates.x]\ncommand = "${'x'.repeat(50_000)}"\n${heirs.join('')}`), [
      'a.toml:3: suites have more than 1024 kB together with all that they inherit.',
    ]);
    const chain = names(5000).map((name, at) => `[templates.${name}]\nextends = "t${at + 1}"\n`);
    assert.deepEqual(await mistakesIn(chain.join('')), ['a.toml:1: templates has more than 200 entries.']);
    const rulesOfAll = Array.from({ length: 20 }, () => rules[0]);
    assert.throws(
      () =>
        readDocument(
          JSON.stringify({
            name: 'x',
            repository_url: 'https://example.org/x.git',
            defaults: { rules: rulesOfAll, command: 'x' },
            suites: names(150).map((name) => ({ name })),
          }),
        ),
      (error) => error instanceof ApiError && error.fields.document?.[0] === 'invalid_format',
    );
    const strange = '{"templates": {"__proto__": {"command": "x"}}, "suites": [{"name": "a", "extends": "__proto__"}]}';
    assert.deepEqual(await mistakesIn(strange, 'a.json'), []);
    const inherited = '{"suites": [{"name": "a", "extends": "constructor"}]}';
    assert.match((await mistakesIn(inherited, 'a.json')).join(), /names "constructor", which is no template/);
  });

  it('have the lines of anchors and merges in YAML', async () => {
    const text = `suites:
  - &base
    name: a
    image: alpine
    steps:
      - &s {name: s, command: x, when: nope}
  - <<: *base
    name: b
    retries: 9
  - name: c
    steps: [*s]
`;
    assert.deepEqual(
      (await mistakesIn(text, 'a.yml')).map((line) => line.slice(0, 31)),
      [
        'a.yml:6: suites[a][steps][0][wh',
        'a.yml:6: suites[b][steps][0][wh',
        'a.yml:6: suites[c][steps][0][wh',
        'a.yml:9: suites[b][retries] mus',
      ],
    );
  });
});

describe('a file that includes others, where these are not known', () => {
  it('is not judged for what they may have', async () => {
    const include = 'include: [{repository: tools, ref: main, path: ci.toml}]\n';
    const text = `${include}suites:
  - {name: a, extends: theirs, root: true}
  - {name: b, needs: [a]}
  - {name: c, extends: b, files_from: a, matrix_exclude: [N=1]}
deploy_strategies:
  - {name: d, strategy_type: suite, suite: a}
`;
    assert.deepEqual(await mistakesIn(text, 'a.yml'), []);
    assert.deepEqual(await mistakesIn(`${text}x: 1\n`.replace('needs: [a]', 'needs: [z], retries: 9'), 'a.yml'), [
      'a.yml:4: suites[b][retries] must be a whole number from 0 to 3.',
      'a.yml:4: suites[b][needs] names "z", which is not a suite of the file.',
      'a.yml:8: x is not known.',
    ]);
    for (const [from, to, line] of [
      ['main', '"a b"', 'include[0][ref] '],
      ['ci.toml', '../ci.toml', 'include[0][path] '],
      ['path: ', 'file: ', 'include[0][file] is not known'],
    ] as const)
      assert.ok((await mistakesIn(text.replace(from, to), 'a.yml'))[0]?.startsWith(`a.yml:1: ${line}`), to);
  });
});
