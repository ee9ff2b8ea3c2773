import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { requireScope, type Caller } from '../../../src/server/auth/callers.ts';
import { scopes } from '../../../src/server/http/route.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { contract, notYetServed, type Entry } from './contract.ts';

describe('the routes', () => {
  const served: Omit<Entry, 'told'>[] = routes.map(({ method, path, access, scope }) => ({
    call: `${method} ${path.replaceAll(/:\w+/g, 'ID')}`,
    access,
    scope,
  }));
  const byCall = (a: { call: string }, b: { call: string }): number => (a.call < b.call ? -1 : 1);

  test('are those of the contract, with its access and scopes, and no others', () => {
    const expected = contract
      .filter(({ call }) => !notYetServed.includes(call))
      .map(({ call, access, scope }) => ({ call, access, scope }));
    assert.deepEqual(served.toSorted(byCall), expected.toSorted(byCall));
  });

  test('do nothing that the sentence of their scope does not tell [promise: oauth-consent]', () => {
    const sentences: Record<string, string> = scopes;
    const untold = contract.flatMap(({ call, scope, told }) => {
      const sentence = sentences[scope]?.toLowerCase();
      if (sentence === undefined) return [];
      return told
        .filter((words) => words === '' || !sentence.includes(words.toLowerCase()))
        .map((words) => `${call}: ${scope} does not tell "${words}"`);
    });
    assert.deepEqual(untold, []);
  });

  test('have scopes whose sentences are those of the documentation', () => {
    const text = readFileSync(new URL('../../../docs/oauth.md', import.meta.url), 'utf8');
    for (const [scope, sentence] of Object.entries(scopes))
      assert.match(text, new RegExp(`^\\| \`${scope}\` +\\| ${RegExp.escape(sentence)} *\\|$`, 'm'));
  });

  test('answer 201 where they create a resource and nowhere else', () => {
    const creating = routes.filter(({ status }) => status === 201).map(({ method, path }) => `${method} ${path}`);
    const verbs =
      /\/(archive|compile|share|unshare|redeliver|replay|new_secret|cancel|approve|reject|rerun|update|suspend|resume|check_connection|check|connect|input|api_key|look|try_now|transfer|accept|quiet|import)$/;
    const posts = routes.filter(({ method, path }) => method === 'POST' && !verbs.test(path));
    assert.deepEqual(
      creating,
      posts.map(({ path }) => `POST ${path}`),
    );
  });

  test('page the lists that grow without end', () => {
    const paged = routes.filter((route) => route.paged).map(({ path }) => path.split('/').at(-1));
    const endless = [
      'artifacts',
      'audit',
      'build_requests',
      'builds',
      'commits',
      'deliveries',
      'deploys',
      'details',
      'history',
      'marketplace',
      'tests',
      'users',
    ];
    assert.deepEqual(new Set(paged), new Set(endless));
  });
});

describe('a token', () => {
  const caller = (...allowed: (keyof typeof scopes)[]): Caller => ({
    id: 1n,
    email: 'a@example.org',
    kind: 'user',
    unpaid: false,
    isOperator: false,
    via: 'token',
    application: 'Build lamp',
    projects: 'all',
    scopes: new Set(allowed),
  });

  test('opens what its scopes name and nothing else [promise: account-scopes]', () => {
    requireScope(caller('commits'), 'commits');
    requireScope(caller(), 'any');
    assert.throws(() => requireScope(caller('build_requests'), 'build_requests_create'), { status: 401 });
    assert.throws(() => requireScope(caller(), 'projects'), { status: 401 });
    const everything = caller(...(Object.keys(scopes) as (keyof typeof scopes)[]));
    assert.throws(() => requireScope(everything, 'never'), { status: 401 });
  });
});
