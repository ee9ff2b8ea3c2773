import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FakeForge, forgeToken, type Dialect } from '../../support/fake-forge.ts';
import { describeService } from '../../support/service.ts';

/** Whether a piece of the token is in a text, in clear. */
function hasPiece(text: string): boolean {
  return Array.from({ length: forgeToken.length - 7 }, (_, at) => forgeToken.slice(at, at + 8)).some((piece) =>
    text.includes(piece),
  );
}

/** Each character as an escape, which means the same. */
const escaped = Array.from(forgeToken, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

describeService(
  'a forge that says its token back',
  (service) => {
    const dialects: Dialect[] = ['github', 'gitlab', 'gitea', 'center'];
    for (const dialect of dialects) {
      test(`${dialect}: is masked in errors, names and reasons [promise: forge-tokens]`, async () => {
        await using forge = await FakeForge.start(dialect, 'team/app', `team/${forgeToken}`);
        const [alice, bob] = [await service.user(), await service.user()];
        const texts: string[] = [];
        const heard = async (answer: Promise<{ text: string }>): Promise<void> => void texts.push((await answer).text);

        // The end of what is told falls into the token.
        for (const kept of [20, 29, 31]) {
          const message = `${'x'.repeat(300 - kept)}${forgeToken}`;
          for (const status of [401, 403, 422, 500]) {
            forge.interfere = () => ({ status, body: { message } });
            await heard(alice.post('/forges', forge.fields));
          }
        }
        // Its name for the owner of the token, plainly and in escapes.
        for (const name of [forgeToken, escaped]) {
          forge.interfere = (call, response) => {
            if (!/\/(user|application-properties)$/.test(call.path)) return undefined;
            const about = `"id": 7, "login": "${name}", "username": "${name}", "version": "${name}"`;
            const header = dialect === 'center' ? { 'x-ausername': forgeToken } : {};
            response.writeHead(200, { 'content-type': 'application/json', ...header }).end(`{${about}}`);
            return 'answered';
          };
          const made = await alice.post('/forges', forge.fields);
          assert.deepEqual([made.status, made.record.login], [201, '[masked]'], made.text);
          await heard(alice.delete(`/forges/${made.record.id}`));
        }
        forge.interfere = () => undefined;

        // The new name of a repository, which a collaborator reads.
        const { id } = (await alice.post('/forges', forge.fields)).record;
        const project = (await alice.post('/projects', { forge_id: id, repository: 'team/app' })).record;
        await alice.post(`/projects/${project.id}/collaborators`, { email: bob.email });
        forge.of('team/app').movedTo = `team/${forgeToken}`;
        await heard(alice.post(`/projects/${project.id}/connect`, { forge_id: id }));
        // GitHub leads to a number, and the other ones to the name itself.
        const words = dialect === 'github' ? /renamed or moved to team\/\[masked\]/ : /renamed or moved elsewhere/;
        assert.match(texts.at(-1) ?? '', words);
        const { db } = service.store;
        const due = db.read.selectFrom('projects').select('forge_state_reason').where('id', '=', project.id);
        await db.transaction(async (trx) => {
          await trx.updateTable('projects').set({ forge_check_at: 1n }).where('forge_id', '=', id).execute();
          await db.announce(trx, 'forges');
        });
        while ((await due.executeTakeFirstOrThrow()).forge_state_reason === '') await pause(10);
        await heard(bob.get(`/projects/${project.id}`));
        assert.match(texts.at(-1) ?? '', words);
        await heard(alice.get('/forges'));
        await heard(alice.get('/audit'));
        for (const text of texts) assert.equal(hasPiece(text), false, text);
      });
    }

    test('is no forge where its answer is nested without end', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const alice = await service.user();
      forge.interfere = (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(`{"id": 7, "login": "ada", "more": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
        return 'answered';
      };
      const refused = await alice.post('/forges', forge.fields);
      assert.equal(refused.status, 403, refused.text);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
