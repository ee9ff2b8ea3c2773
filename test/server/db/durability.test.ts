import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Credentials, Record_ } from '../../support/client.ts';
import { onEveryDatabase, placeFor } from '../../support/databases.ts';
import { command } from '../../support/command.ts';
import { serve, type Serving } from '../../support/program.ts';

const rounds = 3;
const writers = 8;

describe('what was acknowledged', () => {
  onEveryDatabase((database) => {
    test('is there after kill -9', async () => {
      const { folder, env } = await placeFor(database);
      const created = await command(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder], env);
      const alice = JSON.parse(created.stdout.toString()) as Credentials;
      const acknowledged = new Set<string>();
      let suites = '';

      for (let round = 0; round <= rounds; round += 1) {
        const server = await serve(database, folder, env);
        if (suites === '') {
          const form = { name: 'project', repository_url: 'git@example.org:x.git' };
          suites = `/projects/${(await server.api.post('/projects', { as: alice, form })).record.id}/suites`;
        }
        const present = new Set((await server.api.get(suites, { as: alice })).list.map(({ name }: Record_) => name));
        const lost = [...acknowledged].filter((name) => !present.has(name));
        assert.deepEqual(lost, []);
        if (round < rounds) await writeUntilKilled(server, alice, suites, acknowledged, round);
        else server.process.kill('SIGTERM');
        await server.exited;
        server.api.close();
      }
      assert.ok(acknowledged.size >= rounds * 40);
    });
  });
});

/** Kills the server while several clients are in the middle of their requests. */
async function writeUntilKilled(
  { api, process }: Serving,
  as: Credentials,
  suites: string,
  acknowledged: Set<string>,
  round: number,
): Promise<void> {
  let count = 0;
  const target = acknowledged.size + 40;
  const write = async (): Promise<void> => {
    for (;;) {
      count += 1;
      const name = `${round}-${count}`;
      const answer = await api.post(suites, { as, form: { name, command: 'true' } });
      assert.equal(answer.status, 201, answer.text);
      acknowledged.add(name);
      if (acknowledged.size === target) process.kill('SIGKILL');
    }
  };
  const results = await Promise.allSettled(Array.from({ length: writers }, write));
  for (const result of results) {
    assert.ok(result.status === 'rejected', result.status);
    // By its code: the words depend on what the connection was doing.
    assert.match(String((result.reason as NodeJS.ErrnoException).code), /^(ECONNRESET|ECONNREFUSED|EPIPE)$/);
  }
}
