import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { openIncoming } from '../../../src/server/db/incoming.ts';
import { temporaryFolder } from '../../support/folders.ts';

test('files being written stay, and files of a killed server are removed at any age', async (t) => {
  const folder = temporaryFolder();
  const mine = openIncoming(folder);
  const module = new URL('../../../src/server/db/incoming.ts', import.meta.url).href;
  const program = `
    const { openIncoming } = await import(${JSON.stringify(module)});
    const incoming = openIncoming(${JSON.stringify(folder)});
    (await import('node:fs')).writeFileSync(await incoming.file(), 'theirs');
    console.log('written');
    setInterval(() => incoming, 1000);`;
  const other = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  t.after(() => {
    other.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await once(other.stdout, 'data');
  const path = await mine.file();
  writeFileSync(path, 'mine');
  const files = (): number =>
    readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
  await mine.sweep();
  assert.equal(files(), 2, 'both processes live');
  other.kill('SIGKILL');
  await once(other, 'exit');
  await mine.sweep();
  assert.deepEqual([files(), readdirSync(folder).length], [1, 1]);
  assert.deepEqual(readdirSync(dirname(path)).length, 1);
  await mine.close();
  assert.deepEqual(readdirSync(folder), []);
});

test('files of an earlier version are removed by age', async (t) => {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(folder, { recursive: true });
  for (const name of ['old', 'young']) writeFileSync(join(folder, name), 'x');
  const yesterday = new Date(Date.now() - 25 * 60 * 60 * 1000);
  utimesSync(join(folder, 'old'), yesterday, yesterday);
  await openIncoming(folder).sweep();
  assert.deepEqual(readdirSync(folder), ['young']);
});
