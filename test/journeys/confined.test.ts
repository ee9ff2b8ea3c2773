import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { confined } from '../support/confined.ts';
import { temporaryFolder } from '../support/folders.ts';
import { lacks } from '../support/machine.ts';
import { longestWait } from '../support/pauses.ts';
import { serve } from '../support/program.ts';

const root = join(import.meta.dirname, '../..');
const options = { skip: lacks('mounts'), timeout: longestWait };

/** As in a container with its engine's usual capabilities and filter. */
describe('where namespaces and mounts are refused', options, () => {
  test('a server serves', async (t) => {
    const folder = temporaryFolder();
    t.after(() => removeTree(folder));
    const place = { afterwards: (cleanUp: () => void | Promise<void>) => t.after(() => cleanUp()) };
    const serving = await serve(place, folder, {}, { runner: true, within: confined });
    assert.equal((await serving.api.get('/healthz')).status, 200);
    serving.process.kill('SIGTERM');
    await serving.exited;
  });

  const npmTest = (...files: string[]): Promise<Finished> => {
    const own = Object.entries(process.env).filter(([name]) => !/^(?:NODE_TEST_|NODE_OPTIONS$|TEST_)/.test(name));
    const [first = '', ...words] = [...confined, join(root, 'scripts/test'), ...files];
    return run(first, words, { env: Object.fromEntries(own) });
  };

  test('tests of isolation are skipped in words, and others run', async () => {
    const files = [
      'journeys/builds',
      'runner/sandbox/ordinary',
      'runner/git/fetch',
      'shared/lib/disk-reserve',
      'shared/lib/ids',
    ];
    const { status, stdout, stderr } = await npmTest(...files.map((name) => `test/${name}.test.ts`));
    const said = stdout.toString();
    assert.equal(status, 0, said + stderr.toString());
    assert.match(said, /^ℹ fail 0$/m);
    assert.match(said, /^[1-9]\d* tests ran: [1-9]\d* passed, 0 failed\. 4 were skipped\. It took /m);
    assert.match(said, /^ {5}3 skipped: namespaces cannot be made here: .*not permitted$/m);
    assert.match(said, /^ {5}1 skipped: root cannot mount a file system here: .*not permitted$/m);
  });

  test('a file that is not there is told', async () => {
    const { status, stdout } = await npmTest('test/no-such.test.ts');
    assert.equal(status, 1);
    assert.match(stdout.toString(), /^no file is named test\/no-such\.test\.ts$/m);
  });
});
