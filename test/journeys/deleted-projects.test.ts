import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startInstallation, type Installation } from '../support/installation.ts';
import { longestWait } from '../support/pauses.ts';

describe('a project that is deleted', () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const database = {
    kind: 'sqlite' as const,
    emptyUrl: () => assert.fail('the database lies in the data folder'),
    afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp),
  };
  let installation: Installation;
  before(async () => {
    installation = await startInstallation(database);
  });
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });

  const filesIn = (name: string): string[] => {
    for (;;) {
      try {
        return readdirSync(join(installation.folder, name), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name));
      } catch (error) {
        // A folder went between being listed and being looked into: what is there is not known yet.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
  };
  const until = async (isIt: () => boolean, what: () => string): Promise<void> => {
    for (const startedAt = performance.now(); !isIt(); await pause(100))
      assert.ok(performance.now() - startedAt < longestWait, what());
  };

  test('leaves no log, no source and no work tree behind, and those of others stay', async () => {
    const [kept, gone] = [await installation.project('kept'), await installation.project('gone')];
    for (const project of [kept, gone]) {
      // More than is kept in the database, and different in each.
      const suite = { name: 'long', command: `seq 1 30000; echo ${project.id_str}` };
      await installation.api().post(`${project.path}/suites`, suite);
      assert.equal((await project.build('main')).build_state, 'passed');
    }
    const of = (id: string): string[] =>
      ['runner/git/mirrors', 'runner/checkouts'].flatMap(filesIn).filter((path) => path.includes(id));
    await until(
      () => filesIn('blobs').length === 2,
      () => `blobs: ${filesIn('blobs').join()}`,
    );
    assert.ok(of(gone.id_str).length > 0);
    await installation.api().delete(gone.path);
    await until(
      () => filesIn('blobs').length === 1 && of(gone.id_str).length === 0,
      () => `there is still ${[...filesIn('blobs'), ...of(gone.id_str)].join('\n')}`,
    );
    assert.ok(of(kept.id_str).length > 0);
    const [commit] = await kept.commits();
    const [build] = await kept.builds(commit);
    assert.match(await kept.log(build), new RegExp(`30000\n${kept.id_str}\n$`));
  });
});
