import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, describe, test, type TestContext } from 'node:test';
import { frameHead, frameReader } from '../../src/shared/domain/file-frames.ts';
import { randomName } from '../../src/shared/lib/random-name.ts';
import type { Kept, Link, Receipt, SavedCache, Stored, UploadReport } from '../../src/shared/protocol/index.ts';
import { deliverOutbox, emptyOutbox, type Delivering } from '../../src/runner/deliver-outbox.ts';
import { StoreAwayError } from '../../src/runner/failures.ts';
import { openOutbox, type Outbox } from '../../src/runner/outbox.ts';
import { temporaryFolder } from '../support/folders.ts';

const day = 24 * 60 * 60 * 1000;
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** A server, as a runner sees it. */
class Server {
  isAway = false;
  /** Claims that it knows nothing of. */
  readonly gone = new Set<string>();
  readonly kept: string[] = [];
  readonly stored: string[] = [];
  readonly reports: UploadReport[] = [];
  onTry: () => void = () => {};
  onReport: () => void = () => {};

  readonly link: Pick<Link, 'storeFiles' | 'store' | 'uploaded'> = {
    storeFiles: async (claim, content): Promise<Kept> => {
      this.#refuseWhileAway();
      if (this.gone.has(claim)) return { gone: true };
      const frames = frameReader(content as AsyncIterable<Buffer>);
      for (let frame = await frames.next(); frame; frame = await frames.next())
        this.kept.push(`${frame.text} ${(await buffer(frame.content)).toString()}`);
      return { kept: true };
    },
    store: async (claim, content): Promise<Stored> => {
      this.#refuseWhileAway();
      if (this.gone.has(claim)) return { gone: true };
      const text = (await buffer(content)).toString();
      this.stored.push(text);
      return { digest: digestOf(text) };
    },
    uploaded: async (report): Promise<Receipt> => {
      this.reports.push(report);
      this.onReport();
      return { taken: true };
    },
  };

  #refuseWhileAway(): void {
    this.onTry();
    if (this.isAway) throw new StoreAwayError('away');
  }
}

describe('the outbox of a runner', () => {
  const root = temporaryFolder();
  after(() => rmSync(root, { recursive: true }));
  const fresh = (): string => join(root, randomName());
  const disk = { take: async () => {} };
  const open = (folder: string): Promise<Outbox> => openOutbox({ folder, disk, log: () => {} });
  const fileOf = (path: string, text: string) => ({
    path,
    size: text.length,
    content: (async function* one() {
      yield Buffer.from(text);
    })(),
  });
  const cacheIn = (text: string): string => {
    const path = fresh();
    writeFileSync(path, text);
    return path;
  };
  /** What waits of a build, with two files and a cache. */
  const fill = async (outbox: Outbox, project = '7'): Promise<{ claim: string; cache: SavedCache }> => {
    const claim = randomName();
    await using waiting = outbox.begin(claim, project);
    await waiting.addFile(fileOf('a', 'first'));
    await waiting.addFile(fileOf('b', ''));
    const cache = { digest: await waiting.addCache(cacheIn('the cache')), began: '1' };
    assert.equal(await waiting.complete(cache), true);
    return { claim, cache };
  };
  const start = (t: TestContext, outbox: Outbox, server: Server, room = 1) => {
    const ending = new AbortController();
    const delivering: Delivering = {
      outbox,
      link: server.link,
      disk: { room: async () => room },
      signal: ending.signal,
      log: () => {},
    };
    const done = deliverOutbox(delivering);
    t.after(async () => {
      ending.abort();
      await done;
    });
    return delivering;
  };
  const reported = (server: Server): Promise<void> => new Promise((resolve) => (server.onReport = resolve));
  const tried = (server: Server): Promise<void> => new Promise((resolve) => (server.onTry = resolve));
  const untilEmpty = async (outbox: Outbox): Promise<void> => {
    for (let changed = outbox.changed(); outbox.projects().length > 0; changed = outbox.changed()) await changed;
  };

  test('delivers what waits once its build is reported, and is empty then', async (t) => {
    const folder = fresh();
    const outbox = await open(folder);
    const server = new Server();
    start(t, outbox, server);
    const { claim, cache } = await fill(outbox);
    assert.equal(statSync(folder).mode & 0o077, 0);
    assert.deepEqual([outbox.ready(), readdirSync(folder)], [[], [claim]]);
    const told = reported(server);
    outbox.release(claim);
    await told;
    assert.deepEqual(server.kept, ['a first', 'b ']);
    assert.deepEqual(server.stored, ['the cache']);
    assert.deepEqual(server.reports, [{ claim, cache }]);
    await untilEmpty(outbox);
  });

  test('outlives its runner, but for what that was making or removing', async (t) => {
    const folder = fresh();
    const { claim, cache } = await fill(await open(folder));
    for (const name of [`making.${randomName()}`, `leaving.${randomName()}`, randomName()])
      mkdirSync(join(folder, name));
    const outbox = await open(folder);
    assert.deepEqual(readdirSync(folder), [claim]);
    const server = new Server();
    const told = reported(server);
    start(t, outbox, server);
    await told;
    assert.deepEqual([server.kept.length, server.stored.length, server.reports], [2, 1, [{ claim, cache }]]);
  });

  test('leaves nothing of a build that came to nothing', async () => {
    const folder = fresh();
    const outbox = await open(folder);
    {
      await using waiting = outbox.begin(randomName(), '7');
      assert.equal(await waiting.complete(), false);
      await waiting.addFile(fileOf('a', 'first'));
      assert.equal(waiting.isStuck(), true, 'what follows need not be tried');
    }
    assert.deepEqual(readdirSync(folder), []);
  });

  test('tries until the store is back, sends no file twice for the sake of the cache, and says that it is stuck', async (t) => {
    const outbox = await open(fresh());
    const server = new Server();
    const { claim } = await fill(outbox);
    server.isAway = true;
    let attempt = tried(server);
    start(t, outbox, server);
    outbox.release(claim);
    await attempt;
    attempt = tried(server);
    await attempt; // again
    await using next = outbox.begin(randomName(), '7');
    assert.equal(next.isStuck(), true);
    let refusals = 1;
    server.onTry = () => void (server.isAway = server.kept.length === 2 && refusals-- > 0); // in time for the cache
    await reported(server);
    assert.deepEqual([server.kept, server.stored], [['a first', 'b '], ['the cache']]);
    await untilEmpty(outbox);
    assert.equal(next.isStuck(), false);
  });

  test('drops what the server does not want any more, and what belongs to a deleted project', async (t) => {
    const folder = fresh();
    const outbox = await open(folder);
    const server = new Server();
    const [unwanted, deleted] = [await fill(outbox), await fill(outbox, '8')];
    outbox.release(deleted.claim);
    await outbox.forget('8');
    assert.deepEqual(readdirSync(folder), [unwanted.claim]);
    server.gone.add(unwanted.claim);
    start(t, outbox, server);
    outbox.release(unwanted.claim);
    await untilEmpty(outbox);
    assert.deepEqual([server.kept, server.stored, server.reports], [[], [], []]);
  });

  const completed = (folder: string, about: object, files: Record<string, Buffer | string>): string => {
    const claim = randomName();
    mkdirSync(join(folder, claim), { recursive: true });
    writeFileSync(join(folder, claim, 'about'), JSON.stringify(about));
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, claim, name), content);
    return claim;
  };

  test('gives up after seven days, and where builds need the room, and tells the server', async (t) => {
    const folder = fresh();
    const artifacts = Buffer.concat([frameHead('F', 1, 'a'), Buffer.from('x')]);
    const claim = completed(folder, { project: '7', since: Date.now() - 8 * day }, { artifacts });
    const server = new Server();
    server.isAway = true;
    const told = reported(server);
    start(t, await open(folder), server);
    await told;
    assert.deepEqual(server.reports, [{ claim, lost: 'too_late' }]);

    const crowded = new Server();
    crowded.isAway = true;
    const outbox = await open(fresh());
    const { claim: other } = await fill(outbox);
    const toldToo = reported(crowded);
    start(t, outbox, crowded, -1);
    outbox.release(other);
    await toldToo;
    assert.deepEqual(crowded.reports, [{ claim: other, lost: 'no_room' }]);
    await untilEmpty(outbox);
  });

  test('says that something is lost where the disk has spoiled it, and brings the rest', async (t) => {
    const folder = fresh();
    const cache = { digest: digestOf('another cache') };
    const artifacts = Buffer.concat([
      frameHead('F', 1, 'a'),
      Buffer.from('x'),
      frameHead('F', 9, 'b'),
      Buffer.from('y'),
    ]);
    const claim = completed(folder, { project: '7', since: Date.now(), cache }, { artifacts, cache: 'the cache' });
    const server = new Server();
    const told = reported(server);
    start(t, await open(folder), server);
    await told;
    assert.deepEqual(server.reports, [{ claim, lost: 'not_taken' }]);
  });

  test('keeps no runner from starting where the disk has spoiled what it says of itself', async () => {
    const folder = fresh();
    for (const text of ['', '{"project":', '5', '\0'.repeat(40)])
      writeFileSync(join(folder, completed(folder, { project: '7', since: 0 }, {}), 'about'), text);
    assert.deepEqual((await open(folder)).ready(), []);
    assert.deepEqual(readdirSync(folder), []);
  });

  test('follows no link in the place of a cache', async () => {
    const outbox = await open(fresh());
    await using waiting = outbox.begin(randomName(), '7');
    const link = fresh();
    symlinkSync('/etc/passwd', link);
    await assert.rejects(waiting.addCache(link), { code: 'ELOOP' });
  });

  test('is waited for by a runner that ends, for a while', async (t) => {
    const outbox = await open(fresh());
    const server = new Server();
    server.isAway = true;
    const { claim } = await fill(outbox);
    const attempt = tried(server);
    const delivering = start(t, outbox, server);
    outbox.release(claim);
    await attempt;
    await emptyOutbox(delivering, 1);
    assert.deepEqual(server.reports, [{ claim, lost: 'runner_gone' }]);
    server.isAway = false;
    const arrived = await open(fresh());
    const { claim: second } = await fill(arrived);
    const other = new Server();
    const again = start(t, arrived, other);
    arrived.release(second);
    await emptyOutbox(again, 3_600_000);
    assert.equal(other.reports.length, 1);
    assert.equal(existsSync(join(root, second)), false);
  });
});
