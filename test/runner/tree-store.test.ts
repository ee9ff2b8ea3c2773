import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { randomName } from '../../src/shared/lib/random-name.ts';
import { openTreeStore, sweepUnfinished, type MakeTree, type TreeStore } from '../../src/runner/tree-store.ts';
import { temporaryFolder } from '../support/folders.ts';

interface Facts {
  project?: string;
  bytes?: number;
}
const { signal: never } = new AbortController();

describe('a store of trees', () => {
  const root = temporaryFolder();
  after(() => rmSync(root, { recursive: true }));
  const fresh = (): string => join(root, randomName());
  const open = (folder: string, more: Partial<Parameters<typeof openTreeStore<Facts>>[0]> = {}) =>
    openTreeStore<Facts>({ folder, outlives: 'runners', log: assert.fail, ...more });
  const making =
    (text: string, facts: Facts = {}): MakeTree<Facts> =>
    async ({ tree }) => {
      writeFileSync(join(tree, 'file'), text);
      return facts;
    };
  const textIn = ({ path }: { path: string }): string => readFileSync(join(path, 'file'), 'utf8');
  const make = async (store: TreeStore<Facts>, name: string, facts: Facts = {}): Promise<void> =>
    (await store.take(name, making(name, facts), never))[Symbol.dispose]();

  test('makes a tree once for all who want it, and apart for those who may not share', async () => {
    const store = await open(fresh());
    const made: string[] = [];
    const gate = Promise.withResolvers<void>();
    const maker =
      (text: string): MakeTree<Facts> =>
      async (own, signal) => {
        made.push(text);
        await gate.promise;
        return making(text)(own, signal);
      };
    const waiting = [
      store.take('a', maker('first'), never),
      store.take('a', maker('not made'), never),
      store.take('a', maker('another account'), never, 'another account'),
    ];
    gate.resolve();
    const held = await Promise.all(waiting);
    assert.deepEqual(made.toSorted(), ['another account', 'first']);
    assert.equal(new Set(held.map(textIn)).size, 1, 'of two makers the tree of the faster one stays');
    assert.deepEqual(readdirSync(join(held[0]?.path ?? '', '..')), ['a']);
  });

  test('gives up what nobody waits for any more, leaves nothing of it, and makes it for the next one', async () => {
    const folder = fresh();
    const store = await open(folder);
    const begun = Promise.withResolvers<void>();
    const endless: MakeTree<Facts> = async ({ tree }, signal) => {
      writeFileSync(join(tree, 'file'), 'half');
      begun.resolve();
      await pause(2 ** 30, undefined, { signal });
      return {};
    };
    const users = [new AbortController(), new AbortController()];
    const waiting = users.map(({ signal }) => store.take('a', endless, signal));
    await begun.promise;
    users[0]?.abort(new Error('the first leaves'));
    await assert.rejects(waiting[0] ?? Promise.resolve(), /the first leaves/);
    assert.equal(readdirSync(folder).length, 1, 'the second still waits');
    users[1]?.abort(new Error('the second leaves'));
    await assert.rejects(waiting[1] ?? Promise.resolve(), /the second leaves/);
    assert.deepEqual(readdirSync(folder), []);
    using held = await store.take('a', making('whole'), never);
    assert.equal(textIn(held), 'whole');
    await assert.rejects(
      store.take('b', () => Promise.reject(new Error('no room')), never),
      /no room/,
    );
    assert.deepEqual(readdirSync(folder), ['a']);
  });

  test('removes what was not used for longest, and nothing that is in use', async () => {
    const folder = fresh();
    const store = await open(folder, { mostBytes: 20 });
    using held = await store.take('a', making('a', { bytes: 10 }), never);
    for (const name of ['b', 'c', 'd']) await make(store, name, { bytes: 9 });
    while (readdirSync(folder).length > 2) await pause(5);
    assert.deepEqual(readdirSync(folder).toSorted(), ['a', 'd']);
    await store.makeRoom(() => false);
    assert.deepEqual(readdirSync(folder), ['a']);
    await store.remove('a');
    assert.equal(textIn(held), 'a');
    held[Symbol.dispose]();
    held[Symbol.dispose]();
    using again = store.hold('a');
    await store.makeRoom(() => false);
    assert.ok(again && existsSync(again.path), 'two disposals of one holder do not free it for another');
  });

  test('forgets a project, and no other', async () => {
    const folder = fresh();
    const gone: string[] = [];
    const store = await open(folder, { onGone: ({ name }) => void gone.push(name) });
    for (const project of ['7', '71']) await make(store, `${project}-1`, { project });
    await make(store, 'of-all');
    assert.deepEqual(store.projects(), ['7', '71']);
    await store.forget('7');
    assert.deepEqual([gone, store.projects()], [['7-1'], ['71']]);
    assert.deepEqual(readdirSync(folder).toSorted(), ['71-1', 'of-all']);
  });

  test('outlives its runner, but for what that was making or removing', async () => {
    const folder = fresh();
    const before = await open(folder, { parts: ['part'] });
    for (const name of ['old', 'new']) await make(before, name, { project: '7' });
    await make(before, 'linked');
    const outside = fresh();
    mkdirSync(outside);
    writeFileSync(join(outside, 'secret'), 'of the machine');
    rmSync(join(folder, 'linked/part'), { recursive: true });
    symlinkSync(outside, join(folder, 'linked/part'));
    mkdirSync(join(folder, 'without-about'));
    mkdirSync(join(folder, 'leaving.x'));
    symlinkSync(outside, join(folder, 'leaving.x/link'));
    await before.begin(); // by a runner that is killed
    utimesSync(join(folder, 'new'), 0, 0); // not used since
    const store = await open(folder, { parts: ['part'] });
    assert.deepEqual(readdirSync(folder).toSorted(), ['new', 'old']);
    assert.deepEqual(
      store.all().map(({ name, facts }) => [name, facts.project]),
      [
        ['new', '7'],
        ['old', '7'],
      ],
    );
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of the machine');
    await store.begin();
    await sweepUnfinished(folder, assert.fail);
    assert.deepEqual(readdirSync(folder).toSorted(), ['new', 'old']);
  });

  test('outlives a restart of the machine only if it was flushed or never needs to be', async () => {
    const folder = fresh();
    const store = await open(folder);
    await make(store, 'flushed');
    await store.flush();
    await make(store, 'not');
    writeFileSync(join(folder, 'not/boot'), 'another start of the machine');
    assert.deepEqual(
      (await open(folder)).all().map(({ name }) => name),
      ['flushed'],
    );
    for (const [outlives, names] of [
      ['crashes', ['a']],
      ['nothing', []],
    ] as const) {
      const other = fresh();
      await make(await open(other, { outlives }), 'a');
      assert.ok(!readdirSync(other).some((name) => existsSync(join(other, name, 'boot'))));
      assert.deepEqual(
        (await open(other, { outlives })).all().map(({ name }) => name),
        names,
      );
      assert.deepEqual(readdirSync(other), names);
    }
  });

  test('has no tree beside its folder, and none with the name of an unfinished one', async () => {
    const folder = fresh();
    const store = await open(folder);
    for (const name of ['../a', '..', '.', 'a/b', '', 'making.a', 'leaving.a', '.hidden'])
      await assert.rejects(make(store, name), /not the name of a tree/, name);
    assert.deepEqual(readdirSync(folder), []);
  });
});
