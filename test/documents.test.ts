import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkFile } from '../src/documents/file.ts';
import { readFile, RefusedError } from '../src/documents/mistakes.ts';
import { parseYaml } from '../src/documents/yaml.ts';

const check = async (text: string, path: string): Promise<string[]> => {
  try {
    checkFile(await readFile(text, path, async (yaml) => parseYaml(yaml)));
    return [];
  } catch (error) {
    if (error instanceof RefusedError) return error.lines;
    throw error;
  }
};

describe('a file in a repository', () => {
  it('has its mistakes told with their lines, in TOML and in YAML', async () => {
    const cases: [path: string, text: string, mistake: RegExp][] = [
      ['a.toml', '[[suites]]\nname = "unit"\ncommand = [', /^a\.toml:3: cannot be read: Invalid TOML/],
      [
        'a.toml',
        '[[suites]]\nname = "a"\ncommand = "x"\n\n[[suites]]\nname = "b"\nretries = 9\ncommand = "x"\n',
        /^a\.toml:7: suites\[b\]\[retries\]/,
      ],
      [
        'a.toml',
        '[[suites]]\nname = "a"\ncommand = """\n[[suites]]\nx = 1\n"""\ncommnd = "y"\n',
        /^a\.toml:7: suites\[a\]\[commnd\] is not known/,
      ],
      ['a.toml', '[[suites]]\nname = "a"\n', /^a\.toml:1: suites\[a\]\[command\] is missing/],
      [
        'a.toml',
        '[[suites]]\nname = "a"\ncommand = "x"\n[[suites.rules]]\nsubject = "commit.files"\noperator = "matches"\nvalue = "("\n',
        /^a\.toml:7: suites\[a\]\[rules\]\[0\]\[value\]/,
      ],
      ['a.toml', 'suites = 1\n', /^a\.toml:1: suites /],
      [
        'a.yml',
        'suites:\n  - {name: "a", command: x}\n  - name: a][b [c]\n    command: x\n    retries: 9\n',
        /^a\.yml:5: suites\[a\]\[b \[c\]\]\[retries\]/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, needs: [b]}\n',
        /^a\.yml:2: suites\[a\]\[needs\] names something that is not there/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, needs: [a]}\n',
        /^a\.yml:2: suites\[a\]\[needs\] is too large.*no circle/,
      ],
      ['a.yml', 'suites:\n  - {name: a, command: x, root: true}\n', /:2: suites\[a\]\[root\].*only in an image/],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, steps: [{name: s, command: y}]}\n',
        /:2: suites\[a\]\[command\].*either this or `steps`/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x}\n  - {name: b, command: x, files_from: a}\n',
        /:3: suites\[b\]\[files_from\].*one of `needs`/,
      ],
      [
        'a.yml',
        'suites:\n  - name: a\n    command: x\n  - name: b\n    retries: 9\n    command: x\n',
        /^a\.yml:5: suites\[b\]\[retries\]/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x}\ndeploy_strategies:\n  - {name: d, strategy_type: suite, suite: a}\n',
        /^a\.yml:4: deploy_strategies\[d\]\[suite\] is too large.*manual/,
      ],
      ['a.yml', 'suites: [\n  {name: a\n', /^a\.yml:\d: cannot be read/],
      [
        'a.yml',
        'suites:\n  - name: a\n    command: x\n    command: y\n',
        /^a\.yml:4: cannot be read: Map keys must be unique/,
      ],
      ['a.yml', '- 1\n', /^a\.yml cannot be read: it is no table of settings/],
      [
        'a.toml',
        '[[suites]]\nname = "a"\ncommand = "x"\n[[suites.variables]]\nname = "V"\nfrom_env = "PATH"\n',
        /^a\.toml:4: .* has no from_env/,
      ],
    ];
    for (const [path, text, mistake] of cases) {
      const lines = await check(text, path);
      assert.equal(lines.length, 1, `${text}\n${lines.join('\n')}`);
      assert.match(lines[0] ?? '', mistake);
    }
    for (const [path, text] of [
      ['a.toml', '[[suites]]\nname = "a"\ncommand = "x"\nmatrix = ["N=1,2"]\n'],
      ['a.yml', 'suites:\n  - &a {name: a, command: x}\n  - {name: b, steps: [{name: s, command: y}]}\n'],
      ['a.json', '{"suites": []}'],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, manual: true}\ndeploy_strategies:\n  - {name: d, strategy_type: suite, suite: a}\n',
      ],
      ['a.yml', 'suites:\n  - {name: a, command: x, needs: [b]}\n  - {name: b, command: x}\n'],
    ] as const)
      assert.deepEqual(await check(text, path), [], text);
  });

  it('is refused in words where it is written to exhaust its reader [promise: branch-file]', async () => {
    const levels = Array.from(
      { length: 9 },
      (_, at) => `l${at + 1}: &l${at + 1} [${Array(9).fill(`*l${at}`).join(',')}]`,
    );
    const attacks: [path: string, text: string][] = [
      ['a.yml', `l0: &l0 [x,x,x,x,x,x,x,x,x]\n${levels.join('\n')}\n`],
      ['a.yml', `a: ${'['.repeat(1500)}`],
      ['a.toml', `a = ${'['.repeat(50_000)}`],
      ['a.toml', Array.from({ length: 10_000 }, (_, at) => `[[suites]]\nname="${at}"\n`).join('')],
      ['a.yml', 'suites:\n  - {name: a, command: x, needs: [b]}\n  - {name: b, command: x, needs: [a]}\n'],
      ['a.toml', `"${'[]'.repeat(60_000)}" = 1\n`],
      ['a.toml', '[[suites]]\nname = "a\\u001b[31m"\ncommand = "x"\n'],
      ['a.toml', '[[suites]]\nname = "a\\nFound commit: all is well"\ncommand = "x"\n'],
    ];
    for (const [path, text] of attacks) {
      const lines = await check(text, path);
      assert.ok(lines.length > 0, text.slice(0, 80));
      for (const line of lines) assert.doesNotMatch(line, /\p{Cc}/u);
    }
  });
});
