import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { readCallback, wrapInCallback } from '../../../src/server/http/jsonp.ts';
import { exactValue } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const javascript = 'application/javascript; charset=utf-8';

describeServiceOnOne('JSON-P', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('wraps the very same JSON in a call', async () => {
    const project = await alice.createProject({ description: 'line\u2028separators\u2029' });
    const plain = await alice.get(`/projects/${project.id}`);
    const wrapped = await alice.get(`/projects/${project.id}?callback=my.$call_1`);
    assert.equal(wrapped.status, 200);
    assert.equal(wrapped.headers['content-type'], javascript);
    assert.equal(wrapped.headers['x-content-type-options'], 'nosniff');
    const [, json = ''] = /^my\.\$call_1\((.*)\)$/s.exec(wrapped.text) ?? [];
    assert.deepEqual(exactValue(json), plain.body);
    assert.doesNotMatch(json, /[\u2028\u2029]/);
    assert.equal((await service.api.get('/ping?callback=f')).text, 'f({"response":"pong"})');
  });

  test('wraps errors too, and keeps their status', async () => {
    const cases: [number, string, string][] = [
      [400, '/nothing?callback=f', 'api_does_not_exists'],
      [401, '/whoami?callback=f', 'unauthorized'],
    ];
    for (const [status, path, code] of cases) {
      const answer = await service.api.get(path);
      assert.deepEqual([answer.status, answer.text], [status, `f({"error":{"generic":["${code}"]}})`]);
      assert.equal(answer.headers['content-type'], javascript);
    }
    const missing = await alice.get('/projects/1?callback=f');
    assert.deepEqual([missing.status, missing.text], [404, 'f({"error":{"generic":["not_found"]}})']);
  });

  test('hides the status from the browser where that is asked for, and tells the call', async () => {
    const project = await alice.createProject();
    const requests = `/projects/${project.id}/build_requests`;
    for (let made = 0; made < 3; made += 1) await alice.post(requests, { commit_ref: 'main' });
    const told = async (path: string): Promise<unknown[]> => {
      const answer = await alice.get(path);
      assert.deepEqual([answer.status, answer.headers['content-type']], [200, javascript]);
      const [, call = ''] = /^f\((.*)\)$/s.exec(answer.text) ?? [];
      return exactValue(`[${call}]`) as unknown[];
    };
    const quiet = 'callback=f&suppress_status=true';
    const plain = await alice.get(`/projects/${project.id}`);
    const nothing = { status: 200, link: null };
    // The second time the answer is known already.
    for (let round = 0; round < 2; round += 1) {
      assert.deepEqual(await told(`/projects/${project.id}?${quiet}`), [plain.body, nothing]);
    }
    const exact = await service.api.get(`/ping?${quiet}`);
    assert.equal(exact.text, 'f({"response":"pong"}, {"status": 200, "link": null})');
    const missing = { error: { generic: ['not_found'] } };
    assert.deepEqual(await told(`/projects/1?${quiet}`), [missing, { status: 404, link: null }]);
    const unknown = { error: { generic: ['api_does_not_exists'] } };
    assert.deepEqual(await told(`/nothing?${quiet}`), [unknown, { status: 400, link: null }]);
    const wrong = { error: { limit: ['invalid_format'] } };
    assert.deepEqual(await told(`${requests}?limit=0&${quiet}`), [wrong, { status: 403, link: null }]);
    const stranger = await service.api.get(`/whoami?${quiet}`);
    const refused = 'f({"error":{"generic":["unauthorized"]}}, {"status": 401, "link": null})';
    assert.deepEqual([stranger.status, stranger.text], [200, refused]);

    const first = await alice.get(`${requests}?limit=1&${quiet}`);
    const [page, { link }] = (await told(`${requests}?limit=1&${quiet}`)) as [
      { response: unknown[] },
      { link: string },
    ];
    assert.equal(page.response.length, 1);
    assert.match(link, /^<https:\/\/[^>]*[?&]before=\d+[^>]*>; rel="next"$/);
    assert.equal(first.headers.link, link);
    assert.equal((await alice.get(`/projects/1?callback=f&suppress_status=false`)).status, 404);
    assert.equal((await alice.get(`/projects/1?suppress_status=true`)).status, 404);
    assertWrongFields(await alice.get('/projects?callback=1&suppress_status=true'), { callback: 'invalid_format' });
  });

  test('refuses what is not a name', async () => {
    const bad = ['', ' ', '1a', 'a b', 'a;b', 'a(', 'a..b', '.a', 'a.', 'alert(1)//', 'a[0]', 'new', 'a\n', '<script>'];
    for (const callback of [...bad, 'a'.repeat(257)]) {
      const answer = await alice.get(`/projects?callback=${encodeURIComponent(callback)}`);
      assertWrongFields(answer, { callback: 'invalid_format' });
      assert.match(String(answer.headers['content-type']), /^application\/json/);
    }
    assertWrongFields(await alice.get('/projects?callback=a&callback=b'), { callback: 'invalid_format' });
    assertWrongFields(await alice.get('/projects?callback[]=a'), { callback: 'invalid_format' });
    assert.equal((await service.api.ask('GET', '/projects?callback=1a')).status, 401, 'who asks is known first');
  });

  test('is for reading alone', async () => {
    const answer = await alice.post('/projects?callback=f');
    assert.equal(answer.status, 403);
    assert.match(String(answer.headers['content-type']), /^application\/json/);
  });
});

describe('a callback that is accepted', () => {
  const words = fc.constantFrom(
    ...'a $ _ 0 . this new in of let x\u0301 \u200d ünï await eval ( ) ; / \\ \u2028'.split(' '),
  );
  const candidates = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.array(words).map((parts) => parts.join('')),
  );

  test('makes a script that calls it once with the value', () => {
    fc.assert(
      fc.property(candidates, fc.jsonValue(), (callback, value) => {
        let accepted;
        try {
          accepted = readCallback(callback);
        } catch {
          return;
        }
        assert.equal(accepted, callback);
        const [root = '', ...path] = callback.split('.');
        const calls: unknown[] = [];
        const called = (argument: unknown): void => void calls.push(argument);
        const object = path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), called);
        // The body of a sloppy function, which is what a script tag runs.
        // oxlint-disable-next-line typescript/no-implied-eval -- running it is the point
        new Function(root, wrapInCallback(callback, JSON.stringify(value)))(object);
        assert.deepEqual(calls, [JSON.parse(JSON.stringify(value))]);
      }),
      { numRuns: 2000, examples: [['f', { ['__proto__']: { a: '"__proto__":' } }]] },
    );
  });
});
