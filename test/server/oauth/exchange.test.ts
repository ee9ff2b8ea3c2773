import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { callbackAddress, pkcePair, registerApplication, type Application } from '../../support/applications.ts';
import { basic, type Answer } from '../../support/client.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

/** An error as RFC 6749 has it: nothing around it, and nobody keeps it. */
function assertError(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.body.error], [status, code], answer.text);
  assert.equal(typeof answer.body.error_description, 'string');
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.headers.pragma, 'no-cache');
}

describeServiceOnOne('the token endpoint', (service) => {
  let alice: User;
  let application: Application;
  let installed: Application;
  before(async () => {
    alice = await service.user();
    const owner = await service.user();
    application = await registerApplication(service, owner);
    installed = await registerApplication(service, owner, { isPublic: true });
  });

  const works = async (token: unknown): Promise<boolean> =>
    (await service.api.get(`/whoami?oauth_token=${String(token)}`)).status === 200;
  const inBasic = (id: string, secret: string) => ({ authorization: basic({ email: id, api_key: secret }) });

  test('gives a token for a code, once', async () => {
    const code = await application.code(alice, { scopes: ['projects', 'deploys'] });
    const answer = await application.exchange({ code });
    assert.equal(answer.status, 200, answer.text);
    const { access_token: token, ...rest } = answer.body;
    assert.deepEqual(rest, { token_type: 'bearer', scope: 'projects deploys' });
    assert.deepEqual(
      [answer.headers['cache-control'], answer.headers.pragma, answer.headers['content-type']],
      ['no-store', 'no-cache', 'application/json; charset=utf-8'],
    );
    assert.ok(await works(token));
  });

  test('takes the application’s credentials by Basic, and not in two ways', async () => {
    const headers = inBasic(application.clientId, application.secret ?? '');
    const none = { client_id: undefined, client_secret: undefined };
    const code = await application.code(alice);
    assertError(await application.exchange({ code }, headers), 400, 'invalid_request');
    assertError(await application.exchange({ code, ...none, client_id: '7' }, headers), 400, 'invalid_request');
    assert.equal((await application.exchange({ code, ...none }, headers)).status, 200);
    const again = await application.code(alice);
    assert.equal((await application.exchange({ code: again, client_secret: undefined }, headers)).status, 200);
  });

  test('refuses an application that does not prove who it is', async () => {
    const code = await application.code(alice);
    const cases: [Record<string, string | undefined>, Record<string, string>?][] = [
      [{ client_secret: undefined }],
      [{ client_secret: 'hrs_wrong' }],
      [{ client_secret: installed.clientId }],
      [{ client_id: undefined, client_secret: undefined }],
      [{ client_id: '1' }],
      [{ client_id: 'x' }],
      [{ client_id: undefined, client_secret: undefined }, inBasic(application.clientId, 'hrs_wrong')],
      [{ client_id: undefined, client_secret: undefined }, inBasic(application.clientId, '')],
      [{ client_id: undefined, client_secret: undefined }, inBasic('%', '%')],
      [{ client_id: undefined, client_secret: undefined }, { authorization: 'Basic' }],
    ];
    for (const [fields, headers] of cases) {
      const answer = await application.exchange({ code, ...fields }, headers);
      assertError(answer, 401, 'invalid_client');
      assert.match(String(answer.headers['www-authenticate']), /^Basic realm=/);
    }
    assertError(await installed.exchange({ code, client_secret: application.secret }), 401, 'invalid_client');
    assert.equal((await application.exchange({ code })).status, 200);
  });

  test('refuses what is not a request for a token', async () => {
    const code = await application.code(alice);
    assertError(await application.exchange({ code, grant_type: undefined }), 400, 'invalid_request');
    assertError(await application.exchange({ code, grant_type: '' }), 400, 'invalid_request');
    assertError(await application.exchange({ code, grant_type: 'password' }), 400, 'unsupported_grant_type');
    assertError(await application.exchange({ code: undefined }), 400, 'invalid_request');
    const path = '/oauth2/access_token';
    for (const body of ['code=1&code=2', 'code[]=1', 'code=%ff', '%5b=1']) {
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      assertError(await service.api.post(path, { body, headers }), 400, 'invalid_request');
    }
    assertError(await service.api.post(path, { json: { code } }), 400, 'invalid_request');
    const inTheAddress = new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: application.clientId,
      client_secret: application.secret ?? '',
      redirect_uri: callbackAddress,
      code,
    });
    assertError(await service.api.post(`${path}?${inTheAddress.toString()}`), 401, 'invalid_client');
    assert.equal((await application.exchange({ code })).status, 200);
  });

  test('takes a code only from whom it was given to, with the address it was given for', async () => {
    const code = await application.code(alice);
    const other = await registerApplication(service, alice);
    assertError(await other.exchange({ code }), 400, 'invalid_grant');
    for (const address of [
      undefined,
      'https://app.example.org/',
      `${callbackAddress}?x=1`,
      'urn:ietf:wg:oauth:2.0:oob',
    ]) {
      assertError(await application.exchange({ code, redirect_uri: address }), 400, 'invalid_grant');
    }
    assertError(await application.exchange({ code: `${code}x` }), 400, 'invalid_grant');
    assert.equal((await application.exchange({ code })).status, 200);

    const unnamed = await application.code(alice, { redirectUriSent: false });
    assert.equal((await application.exchange({ code: unnamed, redirect_uri: undefined })).status, 200);
  });

  test('takes back what a code gave when the code comes again', async () => {
    const [code, untouched] = [await application.code(alice), await application.code(alice)];
    const token = (await application.exchange({ code })).body.access_token;
    const other = (await application.exchange({ code: untouched })).body.access_token;
    assert.ok(await works(token));
    // Another application that got hold of the code has no say in it.
    assertError(await (await registerApplication(service, alice)).exchange({ code }), 400, 'invalid_grant');
    assert.ok(await works(token));
    assertError(await application.exchange({ code }), 400, 'invalid_grant');
    assert.ok(!(await works(token)));
    assert.ok(await works(other));
  });

  test('gives one token at most for a code that comes many times at once', async () => {
    const code = await application.code(alice);
    const answers = await Promise.all(Array.from({ length: 8 }, () => application.exchange({ code })));
    const given = answers.filter(({ status }) => status === 200);
    assert.equal(given.length, 1);
    for (const { body } of given) assert.ok(!(await works(body.access_token)), 'the others have shown that it leaked');
  });

  test('takes no code after ten minutes, nor of somebody who was suspended', async () => {
    const code = await application.code(alice);
    const row = await service.store.db.read
      .selectFrom('oauth_codes')
      .selectAll()
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirstOrThrow();
    const left = Number(row.expires_at) - Date.now();
    assert.ok(left > 9 * 60_000 && left <= 10 * 60_000, `${left}`);
    await service.store.db.transaction((trx) =>
      trx
        .updateTable('oauth_codes')
        .set({ expires_at: BigInt(Date.now()) })
        .where('id', '=', row.id)
        .execute(),
    );
    assertError(await application.exchange({ code }), 400, 'invalid_grant');
    const eve = await service.user();
    const hers = await application.code(eve);
    await service.suspend(eve);
    assertError(await application.exchange({ code: hers }), 400, 'invalid_grant');
  });

  test('asks for the verifier of every code that was asked for with a challenge', async () => {
    const { verifier, challenge } = pkcePair();
    for (const one of [application, installed]) {
      const code = await one.code(alice, { challenge });
      const wrong = [undefined, pkcePair().verifier, challenge, verifier.slice(1), `${verifier}=`, 'x'];
      for (const codeVerifier of wrong) {
        assertError(await one.exchange({ code, code_verifier: codeVerifier }), 400, 'invalid_grant');
      }
      assert.equal((await one.exchange({ code, code_verifier: verifier })).status, 200);
    }
  });

  test('takes no verifier for a code without a challenge, and no such code from a public application', async () => {
    const { verifier } = pkcePair();
    const code = await application.code(alice);
    assertError(await application.exchange({ code, code_verifier: verifier }), 400, 'invalid_grant');
    const unprotected = await installed.code(alice);
    assertError(await installed.exchange({ code: unprotected }), 400, 'invalid_grant');
    assertError(await installed.exchange({ code: unprotected, code_verifier: verifier }), 400, 'invalid_grant');
  });

  test('writes neither codes nor secrets nor tokens to the log', async () => {
    const code = await application.code(alice);
    const token = String((await application.exchange({ code })).body.access_token);
    await application.exchange({ code });
    for (const secret of [code, token, application.secret ?? '']) assert.ok(!service.log.includes(secret));
  });
});
