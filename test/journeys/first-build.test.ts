import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startHttpsGitHost } from '../support/https-git.ts';
import { lacks } from '../support/machine.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';
import { serve } from '../support/program.ts';
import { createRepository } from '../support/repository.ts';

/** The whole way of a build, with nothing but what `npm start` needs: no sshd, and SQLite. */
test('a public repository is fetched and built in isolation', { skip: lacks('isolated runner') }, async (t) => {
  const folder = temporaryFolder();
  t.after(() => removeTree(folder));
  const host = await startHttpsGitHost();
  t.after(() => host.close());
  const repository = await createRepository(join(host.folder, 'app.git'));
  await repository.commit({ files: { greeting: 'hello\n' } });
  const authority = join(folder, 'authority.pem');
  writeFileSync(authority, host.ca);
  const data = join(folder, 'data');
  mkdirSync(data);
  const settings = {
    HEADRACE_GIT_ALLOW: '127.0.0.0/8,::1/128',
    HEADRACE_TRUST_FILE: authority,
    HEADRACE_BUILD_NETWORK: 'none',
  };
  const place = { afterwards: (cleanUp: () => void | Promise<void>) => t.after(() => cleanUp()) };
  const serving = await serve(place, data, settings, { runner: true });
  t.after(async () => {
    serving.process.kill('SIGTERM');
    await serving.exited;
  });
  const as = { email: 'admin@localhost', api_key: /API key\s+(\S+)/.exec(serving.output)?.[1] ?? '' };
  const ask = async (method: string, path: string, form?: Record<string, string>): Promise<Record<string, unknown>> => {
    const answer = await serving.api.ask(method, path, { as, ...(form && { form }) });
    assert.ok(answer.status < 300, answer.text);
    return (JSON.parse(answer.text) as { response: Record<string, unknown> }).response;
  };

  const project = await ask('POST', '/projects', { name: 'app', clone_url: host.url('app.git') });
  const path = `/projects/${String(project.id_str)}`;
  await ask('POST', `${path}/suites`, { name: 'unit', command: `cat greeting; test -e '${data}' || echo isolated` });
  const asked = await ask('POST', `${path}/build_requests`, { commit_ref: 'main' });
  const wait = growingPauses();
  let state = asked.build_state;
  for (const began = Date.now(); state !== 'passed'; await wait()) {
    const request = await ask('GET', `${path}/build_requests/${String(asked.id_str)}`);
    state = request.build_state;
    assert.ok(['enqueued', 'fetching', 'building', 'passed'].includes(String(state)), JSON.stringify(request));
    assert.ok(Date.now() - began < longestWait, `${JSON.stringify(request)}\n${serving.log()}`);
  }
  const [commit] = (await ask('GET', `${path}/commits`)) as unknown as [{ id_str: string }];
  const [build] = (await ask('GET', `${path}/commits/${commit.id_str}/builds`)) as unknown as [{ id_str: string }];
  const log = await serving.api.ask('GET', `${path}/builds/${build.id_str}/log.txt`, { as });
  assert.equal(log.text, 'hello\nisolated\n');
});
