import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { before, beforeEach, test } from 'node:test';
import { ownCertificate } from '../../../src/server/http/certificate.ts';
import { createResolve } from '../../../src/shared/lib/resolve.ts';
import { createTlsTrust } from '../../../src/shared/lib/tls-trust.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { createIssuer, IssuerError, usualTimes, type IssuerSettings } from '../../../src/server/oidc/issuer.ts';
import { buttonOf, client, issuerSettings } from '../../support/issuer.ts';
import { challengeOf, LyingIssuer } from '../../support/lying-issuer.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

const verified = { email: 'victim@example.org', email_verified: true };

/** In each step an issuer may lie, be slow or be away: nobody gets in, and a page of ours says so. */
onOneDatabase((database) => {
  let issuer: LyingIssuer;
  let service: Service;
  before(async () => {
    issuer = await LyingIssuer.start();
    database.afterwards(() => issuer[Symbol.asyncDispose]());
    service = new Service(database, { settings: issuerSettings(issuer.url, { oidc_trust_email: 'on' }) });
    await service.start();
  });
  beforeEach(() => {
    Object.assign(issuer, { claims: { ...verified }, userinfo: {}, isSignedByAnother: false, at: {} });
  });

  const begin = async () => {
    const tab = new Tab(service);
    const away = await tab.get(buttonOf(await tab.get('/ui/sign-in')));
    return { tab, address: away.headers.location ?? '' };
  };
  const arrive = async (more: Record<string, string> = {}) => {
    const { tab, address } = await begin();
    const answer = await tab.get(issuer.back(address, more));
    const isIn = (await tab.get('/ui/')).status === 200;
    return { status: answer.status, text: answer.text, isIn };
  };
  const refused = async (status: number, more: Record<string, string> = {}) => {
    const answer = await arrive(more);
    assert.deepEqual([answer.status, answer.isIn], [status, false], answer.text);
    assert.match(answer.text, /Acme/);
    return answer.text;
  };

  test('uses the code flow with PKCE, state and nonce', async () => {
    const { tab, address } = await begin();
    const asked = new URL(address).searchParams;
    assert.equal(asked.get('response_type'), 'code');
    assert.equal(asked.get('redirect_uri'), 'https://ci.example.org/ui/oidc/callback');
    assert.equal(asked.get('scope'), 'openid email profile');
    assert.equal((await tab.get(issuer.back(address))).status, 303);
    const verifier = issuer.tokenCalls.at(-1)?.get('code_verifier') ?? '';
    assert.equal(challengeOf(verifier), asked.get('code_challenge'));
    assert.equal(asked.get('code_challenge_method'), 'S256');
  });

  test('believes no answer for another client, sign-in, issuer or user [promise: issuer-answers]', async () => {
    issuer.claims = { ...verified, aud: 'another-client' };
    await refused(400);
    issuer.claims = { ...verified, nonce: 'of another sign-in' };
    await refused(400);
    issuer.claims = { ...verified, iss: 'https://elsewhere.example.org' };
    await refused(400);
    issuer.claims = { ...verified, exp: Math.floor(Date.now() / 1000) - 3600 };
    await refused(400);
    issuer.claims = { ...verified };
    issuer.userinfo = { ...verified, sub: 'somebody else' };
    await refused(400);
    issuer.userinfo = {};
    issuer.isSignedByAnother = true;
    await refused(400);
    issuer.isSignedByAnother = false;
    await refused(400, { state: 'of another sign-in' });
    await refused(400, { iss: 'https://elsewhere.example.org' });
    assert.ok((await arrive()).isIn, 'an honest answer is believed');
  });

  test('takes only an address that its source calls verified', async () => {
    issuer.claims = { sub: 'two', email: 'two@example.org' };
    issuer.userinfo = { sub: 'two', email_verified: true };
    assert.match(await refused(403), /has not verified your e-mail address/);
    issuer.userinfo = { sub: 'two', email: 'three@example.org', email_verified: true };
    assert.ok((await arrive()).isIn);
    const accounts = service.store.db.read.selectFrom('users').select('email').where('email', 'like', 't%@example.org');
    assert.deepEqual(
      (await accounts.execute()).map(({ email }) => email),
      ['three@example.org'],
    );
  });

  test('a swapped subject gets no account of another [promise: issuer-subject]', async () => {
    issuer.claims = { ...verified, sub: 'thief' };
    issuer.userinfo = { sub: 'thief' };
    assert.match(await refused(403), /belongs to another user of Acme/);
  });

  test('tells in a page of ours that it was refused, got nonsense, or no answer', async () => {
    assert.match(
      await refused(403, { error: 'access_denied', error_description: '<b>evil</b>' }),
      /did not sign you in/,
    );
    for (const step of ['token', 'userinfo'] as const) {
      for (const status of [500, 302, 200]) {
        issuer.at = {
          [step]: (response: ServerResponse) =>
            response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end('<html>no JSON</html>'),
        };
        const { tab, address } = await begin();
        const answer = await tab.get(issuer.back(address));
        assert.ok([400, 502].includes(answer.status), `${step} ${status}: ${answer.status}`);
        assert.doesNotMatch(answer.text, /evil|no JSON/);
        assert.equal((await tab.get('/ui/')).status, 303);
      }
      issuer.at = { [step]: (response: ServerResponse) => void response.destroy() };
      await refused(502);
    }
    issuer.at = { userinfo: (response) => response.writeHead(200).end(Buffer.alloc(2 * 1024 * 1024, ' ')) };
    assert.ok([400, 502].includes((await arrive()).status), 'a long answer is cut off');
  });

  test('an issuer that is slow in any step has not answered, however it is slow', async () => {
    assert.ok(usualTimes.requestMs <= usualTimes.longestMs && usualTimes.longestMs < 20_000);
    assert.ok(usualTimes.glanceMs < usualTimes.longestMs);
    const settings: IssuerSettings = {
      issuer: issuer.url,
      clientId: client.id,
      clientSecret: client.secret,
      redirectUri: `${client.baseUrl}/ui/oidc/callback`,
      name: 'Acme',
      scopes: ['openid'],
      groupsClaim: 'groups',
      allowedGroups: [],
      operatorGroup: '',
      allowedDomains: [],
      hasSignUp: true,
      trustsEmail: false,
    };
    const parts = { settings, resolve: createResolve(), trust: createTlsTrust(), onTrouble: () => {} };
    const times = { requestMs: 300, longestMs: 700, glanceMs: 200 };
    const checks = { state: 'state', nonce: 'nonce', verifier: 'v'.repeat(43) };
    const silent = (error: unknown) => error instanceof IssuerError && error.trouble === 'silent';
    const held = new Set<ServerResponse>();
    const slow: Record<string, (response: ServerResponse) => void> = {
      'says nothing': (response) => void held.add(response),
      'says a little from time to time': (response) => {
        held.add(response.writeHead(200, { 'content-type': 'application/json' }));
        const dripping = setInterval(() => response.write(' '), 50);
        response.once('close', () => clearInterval(dripping));
      },
    };
    for (const [how, answer] of Object.entries(slow))
      for (const step of ['description', 'token', 'keys', 'userinfo'] as const) {
        issuer.at = { [step]: answer };
        const one = createIssuer({ ...parts, times });
        assert.equal(await one.isThere(), step !== 'description', `${step} ${how}`);
        const address = one.begin(checks);
        if (step === 'description') await assert.rejects(address, silent, how);
        const back = new URL(issuer.back(step === 'description' ? issuer.url : await address), client.baseUrl);
        back.searchParams.set('state', 'state');
        issuer.nonce = 'nonce';
        await assert.rejects(one.finish(back.search, checks), silent, `${step} ${how}`);
      }
    for (const response of held) response.destroy();

    // A refresh that answers for somebody else says nothing about this user.
    issuer.at = {};
    const one = createIssuer({ ...parts, times: usualTimes });
    const wrong = (error: unknown) => error instanceof IssuerError && error.trouble === 'wrong';
    issuer.nonce = undefined;
    issuer.claims = { ...verified, sub: 'another', groups: ['admins'] };
    issuer.userinfo = { sub: 'another' };
    await assert.rejects(one.lookAgain('a-refresh-token', 'somebody'), wrong, 'the ID token');
    issuer.claims = { ...verified };
    await assert.rejects(one.lookAgain('a-refresh-token', 'somebody'), wrong, 'the user info');
    issuer.userinfo = {};
    assert.equal((await one.lookAgain('a-refresh-token', 'somebody')).subject, 'somebody');
  });

  test('an issuer that hangs is a page of ours within 20 seconds', async () => {
    const held = new Set<ServerResponse>();
    const { tab, address } = await begin();
    issuer.at = { token: (response) => void held.add(response) };
    const began = performance.now();
    const answer = await tab.get(issuer.back(address));
    const took = performance.now() - began;
    for (const response of held) response.destroy();
    assert.equal(answer.status, 502);
    assert.match(answer.text, /Acme gave no answer/);
    assert.ok(took < 20_000, `${took} ms`);
  });

  test('is called by its host, and reads groups from the claim of the settings alone', async () => {
    const { oidc_name: _, ...usual } = issuerSettings(issuer.url, { oidc_groups_claim: 'roles' });
    const one = new Service(database, {
      settings: { ...usual, oidc_allowed_groups: 'builders', oidc_scopes: 'openid roles' },
    });
    await one.start();
    const come = async (claims: Record<string, unknown>) => {
      issuer.claims = { sub: 'of-roles', email: 'roles@example.org', email_verified: true, ...claims };
      issuer.userinfo = { sub: 'of-roles' };
      const tab = new Tab(one);
      const page = await tab.get('/ui/sign-in');
      assert.match(page.text, new RegExp(`Sign in with ${new URL(issuer.url).host}`));
      const address = (await tab.get(buttonOf(page))).headers.location ?? '';
      assert.equal(new URL(address).searchParams.get('scope'), 'openid roles');
      return (await tab.get(issuer.back(address))).status;
    };
    for (const [claims, status] of [
      [{ groups: ['builders'] }, 403],
      [{ roles: { builders: true } }, 403],
      [{ roles: ['Builders', 'builders '] }, 403],
      [{ roles: ['builders'] }, 303],
      [{ roles: 'builders' }, 303],
    ] as const)
      assert.equal(await come(claims), status, JSON.stringify(claims));
  });

  test('is trusted with the certificate of the operator’s file, and not without it', async () => {
    const folder = temporaryFolder();
    const certificate = await ownCertificate(folder, ['localhost']);
    await using own = await LyingIssuer.start(certificate);
    const trustFile = join(folder, 'authority.pem');
    writeFileSync(trustFile, certificate.cert);
    for (const [more, isThere] of [
      [{}, false],
      [{ trust_file: trustFile }, true],
    ] as const) {
      const one = new Service(database, { settings: issuerSettings(own.url, more) });
      await one.start();
      const page = await new Tab(one).get('/ui/sign-in');
      assert.equal(page.text.includes('does not answer'), !isThere);
    }
  });
});
