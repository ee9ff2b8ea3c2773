import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { reasons as sentences } from '../../src/server/lifecycle/reasons.ts';
import { cutReasons, uploadsLost } from '../../src/shared/protocol/index.ts';

/** The page lists every reason that a person can be shown. The sources are read as text: reasons are types, mostly. */
const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/troubleshooting.md'), 'utf8');
const source = (path: string): string => readFileSync(join(root, 'src', path), 'utf8');

/** The first cells of the table of a section, without its head. */
function listed(title: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${title}\n`)) ?? assert.fail(title);
  const [, rows = ''] = section.split(/^\| -[-| ]+\|$/m);
  return Array.from(rows.matchAll(/^\| `([^`]+)`/gm), ([, name = '']) => name);
}

/** The words of a union of literals. */
function union(path: string, name: string): string[] {
  const [, members = ''] = new RegExp(`type ${name} =([^;]*);`).exec(source(path)) ?? assert.fail(`${name} in ${path}`);
  return Array.from(members.matchAll(/'(\w+)'/g), ([, word = '']) => word);
}

function words(path: string, form: RegExp): string[] {
  const found = Array.from(source(path).matchAll(form), ([, word = '']) => word);
  assert.ok(found.length > 0, `${path} has no ${form}`);
  return found;
}

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].toSorted();

describe('docs/troubleshooting.md', () => {
  test('has every failure_reason of a build', () => {
    const said = /failure_reason: '(\w+)'/g;
    const reasons = [
      ...words('server/dispatch/run-suite.ts', said),
      ...words('server/dispatch/files.ts', said),
      ...words('server/lifecycle/builds.ts', said),
      ...union('server/lifecycle/builds.ts', 'LossReason'),
      ...words('server/lifecycle/held-back.ts', /'skipped', '(\w+)'/g),
      ...words('runner/run-suite.ts', /\breason: '(\w+)'/g),
      ...words('server/dispatch/run-suite.ts', /reason: '(\w+)', message/g),
      ...words('server/dispatch/services.ts', /\breason: '(\w+)'/g),
      ...union('runner/sandbox/types.ts', 'Reason'),
      ...union('runner/cannot-run.ts', 'CannotRunReason'),
      ...cutReasons,
    ];
    // A cancelled build has no reason, and a full disk has one name.
    const shown = reasons.filter((reason) => reason !== 'cancelled' && reason !== 'out_of_disk');
    assert.deepEqual(sorted(listed('Why a build failed')), sorted(shown));
  });

  test('has every reason of a fetch', () => {
    const reasons = [
      ...['FetchFailure', 'RemoteFailure', 'LimitFailure'].flatMap((name) => union('runner/git/failures.ts', name)),
      ...cutReasons,
      ...words('server/dispatch/repository-config.ts', /\breason: '(\w+)'/g),
      ...words('server/dispatch/fetch-commit.ts', /failFetch\(.*reason: '(\w+)'/g),
    ];
    assert.deepEqual(sorted(listed('Why a fetch failed')), sorted(reasons));
  });

  test('tells of reasons for which pages have a sentence', () => {
    const reasons = [...listed('Why a build failed'), ...listed('Why a fetch failed'), ...uploadsLost];
    assert.deepEqual(sorted(Object.keys(sentences)), sorted(reasons));
  });

  test('has every waiting_reason', () => {
    const [, judging = ''] = source('server/auth/runner-heartbeats.ts').split('export async function whyWaiting');
    const [said = ''] = judging.split('export interface RunnerNow');
    const ofRunners = Array.from(said.matchAll(/return\s+(['`])(.*)\1;/g), ([, , text = '']) => text);
    assert.ok(ofRunners.length > 4);
    const others = [
      'server/resources/waiting.ts',
      'server/resources/build-requests.ts',
      'shared/domain/runner-slots.ts',
      'server/lifecycle/held-back.ts',
    ].flatMap((path) => words(path, /['`](waits for [^'`]+)['`]/g));
    const rows = listed('Why something waits');
    /** What is filled in stands for some characters; the word for fetches may be there or not. */
    const form = (text: string): RegExp => {
      const parts = text.split(/\$\{(?:[^{}'`]|'[^']*')*\}/).map((part) => RegExp.escape(part));
      return new RegExp(`^${parts.join('.*')}$`);
    };
    // It goes on with what the machine lacks.
    const isolation = words('shared/domain/isolation.ts', /^const beginning = '(.*)';$/gm).map(
      (text) => `${text}\${why}`,
    );
    const forms = [...ofRunners, ...others, ...isolation].map(form);
    for (const one of forms)
      assert.ok(
        rows.some((row) => one.test(row)),
        `the page lacks ${one}`,
      );
    for (const row of rows)
      assert.ok(
        forms.some((one) => one.test(row)),
        `nobody says “${row}”`,
      );
  });

  test('has every reason why files of a build are missing', () => {
    assert.deepEqual(sorted(listed('Files that are missing')), sorted(uploadsLost));
  });
});
