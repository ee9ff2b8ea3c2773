import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { parse } from 'smol-toml';
import { parseYaml } from '../../src/shared/documents/yaml.ts';
import { importFiles, reference, type Imported } from '../../src/shared/imports/index.ts';

const root = join(import.meta.dirname, '../..');

async function imported(path: string, text: string, defaultBranch?: string): Promise<Imported & { file: Parsed }> {
  const yaml = (given: string) => Promise.resolve(parseYaml(given, [reference]));
  const result = await importFiles([{ path, text }], { parseYaml: yaml, defaultBranch });
  assert.deepEqual(result.mistakes, [], result.text);
  return { ...result, file: JSON.parse(JSON.stringify(parse(result.text))) as Parsed };
}

interface Parsed {
  suites?: Record<string, unknown>[];
  variables?: unknown;
  schedules?: unknown;
  parameters?: unknown;
}

const ci = '.github/workflows/ci.yml';

describe('files of other systems', () => {
  test('of 100 real ones, as many as the page says make a file without mistakes, and lack nothing', async () => {
    const packed = readFileSync(join(root, 'test/fixtures/workflows/npm.json.br'));
    const corpus = JSON.parse(String(brotliDecompressSync(packed))) as {
      package: string;
      path: string;
      text: string;
    }[];
    assert.equal(corpus.length, 100);
    const results = await Promise.all(
      corpus.map(async ({ path, text }) => imported(path, text).catch(() => undefined)),
    );
    const accepted = results.filter((one) => one && one.suites.length > 0);
    const whole = accepted.filter((one) => one?.lost.length === 0);
    const page = readFileSync(join(root, 'docs/coming-from.md'), 'utf8');
    const [, most, none] =
      /Of 100 real workflow files, (\d+) make a file .*?, (\d+) of them with nothing left out/.exec(page) ?? [];
    assert.deepEqual([accepted.length, whole.length], [Number(most), Number(none)]);
    assert.ok(accepted.length >= 80 && whole.length >= 60);
  });

  test('GitHub Actions: jobs, a matrix, services, caches, artifacts, conditions and what is set elsewhere', async () => {
    const { file, lost, carried, total, hints, text } = await imported(
      ci,
      `name: CI
on:
  push: { branches: [main, 'release/**'], paths-ignore: ['docs/**'] }
  pull_request:
  schedule: [{ cron: '5 3 * * 1' }]
  workflow_dispatch: { inputs: { stage: { type: choice, options: [test, live], default: test } } }
concurrency: { group: 'ci-\${{ github.ref }}', cancel-in-progress: true }
env: { LEVEL: 3 }
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with: { node-version: 22, cache: npm }
      - run: npm run build
      - uses: actions/upload-artifact@v4
        with: { name: dist, path: dist/ }
  test:
    needs: build
    runs-on: \${{ matrix.os }}
    timeout-minutes: 5
    continue-on-error: \${{ matrix.early }}
    strategy:
      matrix:
        os: [ubuntu-latest, windows-latest]
        node: [20.x, 22.x]
        include: [{ os: ubuntu-latest, node: 24.x, early: true }]
    services:
      db:
        image: postgres:17
        env: { POSTGRES_PASSWORD: x }
        ports: ['5432:5432']
        options: --health-cmd "pg_isready -U postgres" --health-interval 5s
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with: { node-version: '\${{ matrix.node }}' }
      - name: Test \${{ matrix.node }}
        run: |
          if [[ -n $CI ]]; then echo 'on \${{ matrix.node }}'; fi
        env: { TOKEN: '\${{ secrets.NPM_TOKEN }}' }
      - run: echo over
        if: failure() && github.ref == 'refs/heads/main'
      - uses: some/action@v1
      - uses: actions/download-artifact@v4
        with: { name: dist, path: dist }
`,
    );
    const [build, unit, ...copies] = file.suites ?? assert.fail();
    const others = [{ subject: 'request.event', operator: 'matches', value: '^(pull_request|schedule|manual)$' }];
    assert.deepEqual(build?.image, 'docker.io/library/node:22');
    assert.deepEqual([build?.cache, build?.artifacts], [['~/.npm'], ['dist']]);
    assert.deepEqual(build?.variables, [{ name: 'LEVEL', content: '3', secret: false }]);
    const { steps, variables, services, rules, matrix_include: variants, ...plain } = unit ?? assert.fail();
    assert.deepEqual(plain, {
      name: 'test',
      timeout: 300,
      image: 'docker.io/library/node:$NODE',
      matrix_allow_failure: ['EARLY=true'],
      needs: ['build'],
      files_from: 'build',
    });
    assert.deepEqual(variants, ['NODE=20 EARLY=false', 'NODE=22 EARLY=false', 'NODE=24 EARLY=true']);
    assert.deepEqual(services, [
      {
        name: 'db',
        image: 'postgres:17',
        ready_command: 'pg_isready -U postgres',
        variables: [{ name: 'POSTGRES_PASSWORD', content: 'x' }],
      },
    ]);
    assert.deepEqual(steps, [
      {
        name: 'Test matrix.node',
        command: `export TOKEN="\${NPM_TOKEN}"\nbash -e -c 'if [[ -n $CI ]]; then echo '\\''on '\\''"\${NODE}"'\\'''\\''; fi'`,
      },
      {
        name: 'echo over',
        command: 'if ! { [ "$HEADRACE_BRANCH" = main ]; }; then exit 0; fi\necho over',
        when: 'failed',
      },
    ]);
    assert.deepEqual(
      [(variables as unknown[]).length, rules],
      [
        1,
        [
          { subject: 'request.event', operator: 'matches', value: '^(push|poll)$' },
          { subject: 'commit.files', operator: 'not_all_match', value: '^docs/.*$' },
          { subject: 'commit.branches', operator: 'matches', value: '^(main|release/.*)$' },
        ],
      ],
    );
    assert.deepEqual(
      copies.map(({ name, extends: of, needs, files_from: from, rules: limits }) => [name, of, needs, from, limits]),
      [
        ['build (pull request)', 'build', undefined, undefined, others],
        ['test (pull request)', 'test', ['build (pull request)'], 'build (pull request)', others],
      ],
    );
    assert.deepEqual(file.variables, [{ name: 'NPM_TOKEN', keep: true }]);
    assert.deepEqual(file.schedules, [{ cron: '5 3 * * 1' }]);
    assert.equal((file.parameters as unknown[]).length, 1);
    assert.deepEqual(hints, [
      'Set the variable NPM_TOKEN of the project: the secret NPM_TOKEN of the repository there.',
      'Set cancel_superseded of the project to running, so that a newer commit cancels older builds.',
    ]);
    assert.deepEqual(
      lost.map(({ what, why }) => [what, why]),
      [
        ['jobs.test.runs-on: windows-latest', 'runners are on Linux, so its variants are not built'],
        ['jobs.test.steps[4].uses: some/action@v1', 'there is no equal to this action'],
      ],
    );
    assert.deepEqual([carried, total], [29, 31]);
    assert.match(
      text,
      /^# Not carried over: jobs\.test\.steps\[4\]\.uses: some\/action@v1 \(\.github\/workflows\/ci\.yml:\d+\): there is no equal to this action\.$/m,
    );
  });

  test('GitHub Actions: what cannot be said is named, and nothing of it runs by itself', async () => {
    const { file, lost } = await imported(
      ci,
      `on: release
jobs:
  call: { uses: 'team/shared/.github/workflows/x.yml@main' }
  mac: { runs-on: macos-latest, steps: [{ run: make }] }
  plain:
    runs-on: ubuntu-22.04
    needs: [call]
    if: always()
    steps:
      - run: sudo apt-get install -y gcc
      - run: echo \${{ github.event.release.name }}
      - { run: echo hello, if: github.actor == 'bot' }
      - { uses: ./action }
`,
    );
    const [suite, ...others] = file.suites ?? assert.fail();
    assert.deepEqual([others.length, suite?.manual, suite?.image], [0, true, 'docker.io/library/buildpack-deps:22.04']);
    assert.deepEqual(
      (suite?.steps as { name: string }[] | undefined)?.map(({ name }) => name),
      ['set up', 'sudo apt-get install -y gcc'],
    );
    assert.deepEqual(
      lost.map(({ what, line }) => `${line} ${what}`),
      [
        '1 on: release',
        '3 jobs.call.uses: team/shared/.github/workflows/x.yml@main',
        '4 jobs.mac',
        '8 jobs.plain.if: always()',
        '11 jobs.plain.steps[1].run: echo ${{ github.event.release.name }}',
        '12 jobs.plain.steps[2].run: echo hello',
        '13 jobs.plain.steps[3].uses: ./action',
      ],
    );
  });

  test('GitLab CI: stages, templates, references, rules and files of another job', async () => {
    const text = `
stages: [build, test, deploy]
default: { image: 'node:22' }
variables: { MODE: test }
.setup: { script: [echo ready] }
.base: { tags: [linux], retry: 1 }
build:
  extends: .base
  stage: build
  script: [!reference [.setup, script], npm run build]
  cache: { paths: [node_modules/] }
  artifacts: { paths: [dist/], reports: { junit: report.xml } }
test:
  extends: .base
  services: [{ name: 'postgres:17', alias: db }]
  parallel: { matrix: [{ PART: [unit, api] }] }
  script: echo $CI_COMMIT_SHA
  after_script: [echo over]
live:
  stage: deploy
  script: ./publish
  environment: live
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
      when: manual
`;
    const { file, lost } = await imported('.gitlab-ci.yml', text, 'main');
    const [build, unit, live] = file.suites ?? assert.fail();
    assert.deepEqual(build, {
      name: 'build',
      image: 'node:22',
      reports: ['report.xml'],
      tags: ['linux'],
      retries: 1,
      cache: ['node_modules'],
      artifacts: ['dist'],
      steps: [{ name: 'script', command: 'echo ready\nnpm run build' }],
      variables: [{ name: 'MODE', content: 'test', secret: false }],
    });
    assert.deepEqual([unit?.matrix, unit?.needs, unit?.files_from], [['PART=unit,api'], ['build'], 'build']);
    assert.deepEqual(
      ((unit?.steps ?? []) as { when?: string }[]).map(({ when }) => when),
      [undefined, 'always'],
    );
    assert.deepEqual([live?.manual, live?.needs], [true, ['test']]);
    assert.deepEqual(live?.rules, [{ subject: 'commit.branches', operator: 'equals', value: 'main' }]);
    assert.deepEqual(
      lost.map(({ what, line }) => [what, line]),
      [['live.environment: live', 22]],
    );
  });

  test('Woodpecker and Drone: a suite for each image, and plug-ins as comments', async () => {
    const steps = `
when: { event: [push, pull_request], branch: main }
steps:
  - { name: build, image: golang, commands: [go build] }
  - { name: test, image: golang, commands: [go test ./...], environment: { TOKEN: { from_secret: token } } }
  - { name: publish, image: alpine, commands: [./publish], when: { event: push } }
  - { name: tell, image: plugins/slack, settings: { room: x } }
services:
  - { name: db, image: postgres }
`;
    const { file, lost } = await imported('.woodpecker.yml', steps);
    const [first, last] = file.suites ?? assert.fail();
    assert.deepEqual(
      [first?.name, first?.image, last?.name, last?.image],
      ['woodpecker: build', 'golang', 'woodpecker', 'alpine'],
    );
    assert.deepEqual([last?.needs, last?.files_from], [['woodpecker: build'], 'woodpecker: build']);
    assert.deepEqual(file.variables, [{ name: 'TOKEN', keep: true }]);
    assert.deepEqual(
      lost.map(({ what }) => what),
      ['steps[3].image: plugins/slack'],
    );
    const drone = `kind: pipeline\nname: one\nsteps: [{ name: a, image: alpine, commands: [make] }]\n---\nkind: pipeline\nname: two\ndepends_on: [one]\nsteps: [{ name: b, image: alpine, commands: [make b] }]\n`;
    const both = await imported('.drone.yml', drone);
    assert.deepEqual(
      both.file.suites?.map(({ name, needs }) => [name, needs]),
      [
        ['one', undefined],
        ['two', ['one']],
      ],
    );
    assert.deepEqual(both.lost, []);
  });

  test('Travis: versions and environments as a matrix, phases, failures that are allowed', async () => {
    const { file, lost } = await imported(
      '.travis.yml',
      `language: node_js\nnode_js: [stable, "10"]\nenv: [A=1, 'A="x y"']\nservices: redis-server\nbefore_script: [echo $TRAVIS_COMMIT]\nafter_success: npm run report\nmatrix: { allow_failures: [{ node_js: "10" }] }\ndeploy: { provider: npm }\n`,
    );
    const [suite] = file.suites ?? assert.fail();
    assert.deepEqual(suite?.matrix, ['NODE_VERSION=latest,10', 'A=1,x_y']);
    assert.equal(suite?.image, 'docker.io/library/node:$NODE_VERSION');
    assert.deepEqual(suite?.services, [{ name: 'redis', image: 'docker.io/library/redis:latest' }]);
    const [script] = (suite?.steps ?? []) as { command: string }[];
    assert.match(
      script?.command ?? '',
      /^case "\$A" in x_y\) A='x y' ;; esac\nexport TRAVIS_COMMIT="\$HEADRACE_COMMIT"\nif \[ -f yarn\.lock \]/,
    );
    assert.deepEqual(
      lost.map(({ what }) => what),
      ['deploy'],
    );
  });
});

describe('hostile files', () => {
  const hostile =
    'x\\u000Aapi_token = \\u0022write\\u0022\\u000A[[suites]]\\u000Aname = \\u0022evil\\u0022 \\u0000 \\u2028 \\u0085 \\u0007 \'\'\' \\"\\"\\"';
  test('cannot add a field through a name, a value or a comment', async () => {
    const text = `on: push
"${hostile}": 1
jobs:
  "${hostile}":
    name: "${hostile}"
    runs-on: ubuntu-latest
    "${hostile}": "${hostile}"
    env: { GOOD: "${hostile.replace('\\u0000', '')}", "${hostile}": x }
    container: "${hostile}"
    steps:
      - { name: "${hostile}", run: "make # ${hostile.replace('\\u0000', '')}" }
      - { uses: "${hostile}" }
`;
    const yaml = (given: string) => Promise.resolve(parseYaml(given, [reference]));
    const { text: made } = await importFiles([{ path: `${ci}\napi_token = 1`, text }], { parseYaml: yaml });
    const parsed = parse(made) as Parsed;
    assert.equal(parsed.suites?.length, 1);
    assert.deepEqual(Object.keys(parsed), ['suites']);
    const allowed = ['name', 'description', 'image', 'steps', 'rules', 'variables'];
    for (const name of Object.keys(parsed.suites?.[0] ?? {})) assert.ok(allowed.includes(name), name);
  });

  test('are bounded: bombs of aliases, thousands of jobs, deep nesting, endless extends', async () => {
    const bomb = `a: &a [x]\n${Array.from({ length: 30 }, (_, at) => `b${at}: &b${at} [*${at === 0 ? 'a' : `b${at - 1}`}, *${at === 0 ? 'a' : `b${at - 1}`}]`).join('\n')}`;
    await assert.rejects(imported(ci, bomb), /aliases/);
    const jobs = Array.from({ length: 600 }, (_, at) => `  j${at}: { runs-on: x, steps: [{ run: make }] }`).join('\n');
    const many = await imported(ci, `on: push\njobs:\n${jobs}\n`);
    assert.match(many.text, /^# A file has at most 200 suites: \d+ are missing here\.$/m);
    await imported(
      '.gitlab-ci.yml',
      'a: { extends: b, script: x }\nb: { extends: a, script: x }\n.c: !reference [.c, x]\nd: { script: [!reference [.c, x]] }\n',
    );
    await imported('.gitlab-ci.yml', `a: { script: ${'['.repeat(40)}x${']'.repeat(40)} }\n`);
    const templates = Array.from(
      { length: 30 },
      (_, at) =>
        `.t${at}: { extends: [${Array(50)
          .fill(`.t${at + 1}`)
          .join(', ')}], script: [${Array(50)
          .fill(`!reference [.t${at + 1}, script]`)
          .join(', ')}] }`,
    );
    await imported('.gitlab-ci.yml', `${templates.join('\n')}\n.t30: { script: x }\na: { extends: .t0 }\n`);
    const numbers = Array.from({ length: 1100 }, (_, at) => at).join(', ');
    await imported('.travis.yml', `language: node_js\nnode_js: [${numbers}]\nenv: [${numbers}]\n`);
    const odd = "'[' == '{' ".repeat(4000);
    await imported(
      ci,
      `on: { push: { branches: ['${'['.repeat(50_000)}'] } }\njobs: { a: { runs-on: x, steps: [{ run: "${odd}" }] } }\n`,
    );
    const axes = Array.from({ length: 6 }, (_, at) => `a${at}: [1, 2, 3, 4, 5, 6]`).join(', ');
    const wide = await imported(
      ci,
      `on: push\njobs:\n  t: { runs-on: x, strategy: { matrix: { ${axes} } }, steps: [{ run: make }] }\n`,
    );
    assert.match(wide.lost[0]?.why ?? '', /more than 1024 combinations/);
    await assert.rejects(imported(ci, `#${'x'.repeat(131_072)}`), /more than 128 kB/);
    await assert.rejects(imported(ci, '[]'), /not a table of settings/);
    await assert.rejects(imported(ci, 'on: [\n'), /ci\.yml:\d cannot be read/);
  });
});
