import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { Developer } from '../../support/developer.ts';

const workflow = `name: CI
on: [push, pull_request]
jobs:
  test:
    runs-on: \${{ matrix.os }}
    strategy: { matrix: { os: [ubuntu-latest, windows-latest] } }
    steps:
      - uses: actions/checkout@v4
      - run: make
        env: { TOKEN: '\${{ secrets.DEPLOY_TOKEN }}' }
`;
const drone = 'kind: pipeline\nname: pack\nsteps: [{ name: pack, image: alpine, commands: [make pack] }]\n';

describe('headrace import', () => {
  const developer = new Developer({});
  const at = (name: string): string => join(developer.folder, name);
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(at(name)), { recursive: true });
    writeFileSync(at(name), text);
  };
  const run = async (...args: string[]): Promise<unknown[]> => {
    const { status, out, err } = await developer.run(['import', ...args]);
    return [status, out, err];
  };

  test('refuses in words where there is nothing, and what is no plain file of a workflow', async () => {
    const [status, out, err] = await run();
    assert.deepEqual([status, out], [2, '']);
    assert.match(
      String(err),
      /^headrace: There is no file of another CI here: \.github\/workflows, .*\.travis\.yml\.\n$/,
    );
    assert.deepEqual(await run('gone.yml'), [2, '', 'headrace: There is no gone.yml.\n']);
    write('open.yml', 'on: [\n');
    assert.match(String(await run('open.yml')), /^2,,headrace: open\.yml:\d cannot be read: /);
    write('large.yml', '');
    truncateSync(at('large.yml'), 100_000_000);
    assert.deepEqual(await run('large.yml'), [2, '', 'headrace: large.yml cannot be read: it has more than 128 kB.\n']);
    symlinkSync('/etc/passwd', at('link.yml'));
    assert.deepEqual(await run('link.yml'), [2, '', 'headrace: link.yml is a link. Name the file itself.\n']);
    mkdirSync(at('.github'));
    symlinkSync('/etc', at('.github/workflows'));
    assert.match(String(await run()), /There is no file of another CI here/);
    assert.equal(existsSync(at('.headrace.toml')), false);
  });

  test('writes a file that check accepts, and tells what is left out, and the count as the last line', async () => {
    const other = new Developer({});
    const put = (name: string, text: string): void => {
      mkdirSync(dirname(join(other.folder, name)), { recursive: true });
      writeFileSync(join(other.folder, name), text);
    };
    put('.github/workflows/ci.yml', workflow);
    put('.github/workflows/README.md', 'no workflow');
    put('.drone.yml', drone);
    symlinkSync('/etc/passwd', join(other.folder, '.github/workflows/link.yml'));
    const first = await other.run(['import']);
    const left =
      '.github/workflows/ci.yml:5: jobs.test.runs-on: windows-latest: runners are on Linux, so its variants are not built.\n';
    const set = 'Set the variable DEPLOY_TOKEN of the project: the secret DEPLOY_TOKEN of the repository there.\n';
    assert.deepEqual(
      [first.status, first.out, first.err],
      [
        0,
        'Wrote .headrace.toml. Check it, set what is named below, and commit it.\n',
        `${set}${left}11 of 12 carried over\n`,
      ],
    );
    const text = readFileSync(join(other.folder, '.headrace.toml'), 'utf8');
    assert.match(
      text,
      /^# Not carried over: jobs\.test\.runs-on: windows-latest \(\.github\/workflows\/ci\.yml:5\): /m,
    );
    assert.match(text, /name = "DEPLOY_TOKEN"\nkeep = true\n/);
    assert.equal((await other.run(['check'])).status, 0);
    const refused = await other.run(['import']);
    assert.deepEqual(
      [refused.status, refused.err],
      [2, 'headrace: .headrace.toml is there already. To replace it, add --force.\n'],
    );
    const forced = await other.run(['import', '.drone.yml', '--force', '--json']);
    assert.deepEqual([forced.status, forced.err], [0, '2 of 2 carried over\n']);
    assert.deepEqual(JSON.parse(forced.out), {
      file: '.headrace.toml',
      suites: ['pack'],
      carried: 2,
      total: 2,
      left_out: [],
      to_set: [],
      mistakes: [],
    });
    assert.doesNotMatch(readFileSync(join(other.folder, '.headrace.toml'), 'utf8'), /DEPLOY_TOKEN/);
  });
});
