import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeServiceOnOne } from '../../support/service.ts';

describeServiceOnOne('the service itself', (service) => {
  test('answers a ping without credentials, and with wrong ones', async () => {
    const answer = await service.api.get('/ping');
    assert.deepEqual([answer.status, answer.text], [200, '{"response":"pong"}']);
    const wrong = await service.api.get('/ping', { headers: { authorization: 'Basic !' } });
    assert.equal(wrong.status, 200);
  });

  test('tells who calls', async () => {
    const alice = await service.user();
    assert.deepEqual((await alice.get('/whoami')).response, { email: alice.email });
    const spelled = { ...alice.credentials, email: alice.email.toUpperCase() };
    assert.deepEqual((await service.api.get('/whoami', { as: spelled })).response, { email: alice.email });
  });
});
