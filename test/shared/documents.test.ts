import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readDocument } from '../../src/cli/developer/documents.ts';
import { checkFile } from '../../src/shared/documents/file.ts';
import { readFile, RefusedError } from '../../src/shared/documents/mistakes.ts';
import { parseYaml } from '../../src/shared/documents/yaml.ts';

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
        /^a\.yml:2: suites\[a\]\[needs\] names "b", which is not a suite of the file\.$/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, needs: [a]}\n',
        /^a\.yml:2: suites\[a\]\[needs\] is a cycle: "a" needs "a"\.$/,
      ],
      ['a.yml', 'suites:\n  - {name: a, command: x, root: true}\n', /:2: suites\[a\]\[root\] needs an image/],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x, steps: [{name: s, command: y}]}\n',
        /:2: suites\[a\]\[command\] conflicts with steps/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x}\n  - {name: b, command: x, files_from: a}\n',
        /:3: suites\[b\]\[files_from\] names "a", which is not in needs/,
      ],
      [
        'a.yml',
        'suites:\n  - name: a\n    command: x\n  - name: b\n    retries: 9\n    command: x\n',
        /^a\.yml:5: suites\[b\]\[retries\]/,
      ],
      [
        'a.yml',
        'suites:\n  - {name: a, command: x}\ndeploy_strategies:\n  - {name: d, strategy_type: suite, suite: a}\n',
        /^a\.yml:4: deploy_strategies\[d\]\[suite\] names "a", which is not manual/,
      ],
      ['a.yml', 'suites: [\n  {name: a\n', /^a\.yml:\d: cannot be read/],
      [
        'a.yml',
        'suites:\n  - name: a\n    command: x\n    command: y\n',
        /^a\.yml:4: cannot be read: Map keys must be unique/,
      ],
      ['a.yml', 'schedules:\n  - {cron: 5}\n', /^a\.yml:2: schedules\[0\]\[cron\] is 5, which never comes due/],
      ['a.yml', '- 1\n', /^a\.yml cannot be read: it is not a table of settings/],
      [
        'a.toml',
        '[[suites]]\nname = "a"\ncommand = "x"\n[[suites.variables]]\nname = "V"\nfrom_env = "PATH"\n',
        /^a\.toml:6: .*\[from_env\] has no meaning in a repository/,
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

  it('is held to all that a server would refuse, at once and with reasons', async () => {
    const text = `
[[suit]]
name = "lost"

[[suites]]
name = "unit"
command = "make"
matrix = ["CC=gcc,clang"]
matrix_exclude = ["CC=gcc", "CC=clang"]
image = "not an image"
tags = ["a b", "ü"]

[[suites]]
name = "lint"
needs = ["unit", "nobody"]
cache_save = "never"

[[suites.rules]]
subject = "commit.ref"
operator = "matches"
value = "("

[[deploy_strategies]]
name = "push"
strategy_type = "git"

[[deploy_strategies]]
name = "run"
strategy_type = "suite"
remote_branch = "main"

[[schedules]]
cron = "0 0 31 2 *"
`;
    assert.deepEqual(await check(text, 'a.toml'), [
      'a.toml:2: suit is not known.',
      'a.toml:9: suites[unit][matrix_exclude] excludes every variant of the matrix, so there is nothing to build.',
      `a.toml:10: suites[unit][image] is "not an image", which is not allowed; expected: an OCI reference, such as registry/name:tag; blank for the machine's programs; $NAME is a value of the matrix.`,
      'a.toml:11: suites[unit][tags] has the entry "ü", which is not allowed; expected: only runners with all of these tags.',
      'a.toml:13: suites[lint][command] is missing: a suite has a command or steps.',
      'a.toml:15: suites[lint][needs] names "nobody", which is not a suite of the file.',
      'a.toml:16: suites[lint][cache_save] is "never", and must be one of passed, always.',
      'a.toml:21: suites[lint][rules][0][value] is "(", which is not a regular expression in the syntax of RE2 with at most 300 parts.',
      'a.toml:23: deploy_strategies[push][repository_url] is missing: a push needs the address of a repository.',
      'a.toml:23: deploy_strategies[push][local_branch] is missing.',
      'a.toml:23: deploy_strategies[push][remote_branch] is missing.',
      'a.toml:27: deploy_strategies[run][suite] is missing: name the manual suite that a deploy runs.',
      'a.toml:30: deploy_strategies[run][remote_branch] is only for pushes: this strategy runs a suite.',
      'a.toml:33: schedules[0][cron] is "0 0 31 2 *", which never comes due. It needs five fields: minute, hour, day, month, day of the week.',
    ]);
    assert.deepEqual(await check('suites:\n  - {name: a, command: x, files_from: b}\n', 'a.yml'), [
      'a.yml:2: suites[a][files_from] names "b", which is not a suite of the file.',
    ]);
    const secret = 'variables: [{name: A, content: the-secret}]\nsuites: [{name: a, command: x, image: 1}]\n';
    assert.doesNotMatch((await check(secret, 'a.yml')).join(), /the-secret/);
  });

  it('has the right lines in inline tables, after long texts and between comments', async () => {
    const lines = async (text: string): Promise<(string | undefined)[]> =>
      (await check(text, 'a.toml')).map((line) => /^a\.toml:(\d+): (\S+)/.exec(line)?.slice(1).join(' '));
    const inline = `suites = [ # ] {
  {name = "a", command = """
x = 1 }] \\""" "
"""},
  { name = 'b]', retries = 9, command = "x \\" # no comment ]", x = 1 },
  {command = "x",
   name = "c", steps = [],
   retries = 1979-05-27 07:32:00},
]
[[ schedules ]]
"cron" = '''
'''''
`;
    assert.deepEqual(await lines(inline), [
      '5 suites[b]][x]',
      '5 suites[b]][retries]',
      '8 suites[c][retries]',
      '11 schedules[0][cron]',
    ]);
    assert.deepEqual(await lines('suites.name = 1\n[a.b]\nc = 1\n"d\\"e".f = 1\n'), ['1 suites', '2 a']);
  });

  it('may share settings with anchors and merges in YAML', async () => {
    const text = `suites:
  - &base
    name: a
    image: alpine
    command: x
  - {<<: *base, name: b}
  - <<: [*base]
    name: c
    retries: 9
`;
    assert.deepEqual(await check(text, 'a.yml'), ['a.yml:9: suites[c][retries] must be a whole number from 0 to 3.']);
    const applied = (await readDocument(text, 'a.yml')).table as { suites: object[] };
    assert.deepEqual(applied.suites[1], { name: 'b', image: 'alpine', command: 'x' }, 'apply reads it as well');
    await assert.rejects(readDocument('a: &a {<<: *a}\n', 'a.yml'), /it has more than 500 aliases/);
  });

  it('is refused in words where it is written to exhaust its reader [promise: branch-file]', async () => {
    const levels = Array.from(
      { length: 9 },
      (_, at) => `l${at + 1}: &l${at + 1} [${Array(9).fill(`*l${at}`).join(',')}]`,
    );
    const attacks: [path: string, text: string][] = [
      ['a.yml', `l0: &l0 [x,x,x,x,x,x,x,x,x]\n${levels.join('\n')}\n`],
      ['a.yml', 'a: &a {<<: *a}\n'],
      [
        'a.yml',
        ['l0: &l0 {x: 1}', ...levels.map((level) => level.replace('[', '{<<: [').replace(']', ']}'))].join('\n'),
      ],
      ['a.yml', `a: &a x\nb: [${Array(3000).fill('*a').join(',')}]\n`],
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
