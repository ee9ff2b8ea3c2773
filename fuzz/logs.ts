import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { openFileBlobs } from '../src/server/db/blobs.ts';
import { migrate } from '../src/server/db/migrate.ts';
import { openDatabase } from '../src/server/db/open.ts';
import { textOf } from '../src/server/resources/logs.ts';
import { wireFor } from '../src/server/streams/firehose.ts';
import { appendLog, beginLog, completeLog, findLog, readLog } from '../src/server/streams/logs.ts';
import { packLog } from '../src/server/streams/pack-log.ts';
import { keepReserve } from '../src/shared/lib/disk-reserve.ts';
import { newEvents, wholeCharacters, type Followed, type ReadPosition } from '../src/server/streams/tail.ts';
import { oddBytes } from './mutations.ts';
import { anyProperty, pure, type Target } from './target.ts';

const scene = fc.record({
  /** Each chunk comes with bytes that were sent before, as after a broken connection. */
  chunks: fc.array(fc.record({ bytes: oddBytes, again: fc.nat(40) }), { maxLength: 6 }),
  ranges: fc.array(fc.tuple(fc.nat(200), fc.nat(200)), { maxLength: 4 }),
  limit: fc.integer({ min: 1, max: 40 }),
});

/** The log is byte for byte what was sent, in every range; as text, piece by piece, it is the text of the whole. */
export const logs: Target = {
  name: 'logs',
  runs: 20,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    const db = await openDatabase({ url: join(folder, 'logs.db') });
    await migrate(db);
    const blobs = await openFileBlobs(join(folder, 'blobs'), keepReserve({ folders: [folder], bytes: 0 }));
    const parts = { db: db.read, blobs };
    let last = 0n;

    const check = async (
      id: bigint,
      sent: Buffer,
      { ranges, limit }: Pick<Scene, 'ranges' | 'limit'>,
      isOver: boolean,
    ) => {
      const read = async (from: number, to: number): Promise<Buffer> => {
        const pieces: Buffer[] = [];
        for await (const piece of readLog(db.read, blobs, id, BigInt(from), BigInt(to))) pieces.push(piece);
        return Buffer.concat(pieces);
      };
      assert.deepEqual(await read(0, sent.length + 10), sent);
      for (const [from, length] of ranges)
        assert.deepEqual(await read(from, from + length), sent.subarray(from, from + length));
      const whole = sent.subarray(0, isOver ? sent.length : wholeCharacters(sent)).toString();
      let text = '';
      for (let at = 0; ;) {
        const part = await textOf(parts, id, { offset: at, limit });
        if (part.next_offset === at) break;
        text += part.text;
        at = part.next_offset;
      }
      assert.equal(text, whole);
      assert.equal(await followed(id, isOver), whole);
    };
    const followed = async (id: bigint, isOver: boolean): Promise<string> => {
      const states = [{ state: isOver ? 'passed' : 'running', sequence: 1n }];
      const subject: Followed = {
        id,
        read: async () => ({ states, size: (await findLog(db.read, id))?.size ?? 0n }),
        isFinal: (state) => state === 'passed',
      };
      const place: ReadPosition = { at: 0n };
      let text = '';
      for await (const event of newEvents(parts, subject, place)) if (event.type === 'log') text += event.text;
      return text;
    };

    const property = fc.asyncProperty(scene, async ({ chunks, ...reading }) => {
      last += 1n;
      const id = last;
      await db.transaction((trx) => beginLog(trx, id, null));
      let sent = Buffer.alloc(0);
      for (const { bytes, again } of chunks) {
        const offset = Math.max(0, sent.length - again);
        const chunk = Buffer.concat([sent.subarray(offset), bytes]);
        const stored = await db.transaction((trx) => appendLog(db, trx, id, BigInt(offset), chunk));
        assert.deepEqual(stored, { stored: true });
        sent = Buffer.concat([sent, bytes]);
        const gap = await db.transaction((trx) => appendLog(db, trx, id, BigInt(sent.length + 1), Buffer.from('x')));
        assert.deepEqual(gap, { expected: BigInt(sent.length) });
      }
      await check(id, sent, reading, false);
      await db.transaction((trx) => completeLog(db, trx, id));
      await check(id, sent, reading, true);
      await packLog(db, blobs, id);
      await check(id, sent, reading, true);
    });
    return {
      property: anyProperty(property),
      async close() {
        await db.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};

interface Scene {
  ranges: [number, number][];
  limit: number;
}

/** An event is one event on the wire, whatever stands in its text: nothing in a log can make another of it. */
export const firehose = pure(
  'firehose',
  300,
  fc.property(oddBytes, fc.nat(), fc.option(fc.stringMatching(/^[\d:]*$/), { nil: undefined }), (bytes, offset, id) => {
    const event = { type: 'log', offset, next: offset + bytes.length, text: bytes.toString() } as const;
    const labels = { build_id: '1' };
    const line = wireFor('application/x-ndjson').encode(event, labels, id);
    assert.match(line, /^[^\n\r]*\n$/);
    assert.equal((JSON.parse(line) as { text: string }).text, event.text);
    const [lead, ...rest] = wireFor(undefined).encode(event, labels, id).split('\n');
    const lines = id === undefined ? [lead, ...rest] : rest;
    assert.equal(lines.length, 4);
    assert.deepEqual([lines[0], lines[2], lines[3]], ['event: log', '', '']);
    assert.ok(!lines.join().includes('\r'));
    assert.equal((JSON.parse(lines[1]?.replace(/^data: /, '') ?? '') as { text: string }).text, event.text);
  }),
);
