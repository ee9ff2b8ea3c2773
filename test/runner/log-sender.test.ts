import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { CutReason, Link, LogChunk, Receipt } from '../../src/shared/protocol/index.ts';
import { RejectedError } from '../../src/runner/failures.ts';
import { createLogSender, type LogSender } from '../../src/runner/log-sender.ts';
import { temporaryFolder } from '../support/folders.ts';

const megabyte = 1024 * 1024;

/** The end of the line: it takes chunks as a server does, and is away, slow or forgetful when the test says so. */
class Receiver {
  stored = Buffer.alloc(0);
  largest = 0;
  answer: (chunk: LogChunk) => Receipt | Promise<Receipt> = (chunk) => this.take(chunk);

  take({ offset, bytes }: LogChunk): Receipt {
    const known = this.stored.length - offset;
    if (known < 0) return { expected: this.stored.length };
    this.largest = Math.max(this.largest, bytes.length);
    this.stored = Buffer.concat([this.stored, bytes.subarray(known)]);
    return { taken: true };
  }

  link(): Link {
    return { log: async (chunk: LogChunk) => this.answer(chunk) } as Partial<Link> as Link;
  }
}

let receiver: Receiver;
let folder: string;
let stop: AbortController;
let wasGone: boolean;
let cuts: CutReason[];
let lost: unknown[];
let isDiskFull: boolean;
let onDiskCheck: () => void;
let sender: LogSender;
beforeEach(() => {
  folder = temporaryFolder();
  stop = new AbortController();
  receiver = new Receiver();
  wasGone = false;
  cuts = [];
  lost = [];
  isDiskFull = false;
  onDiskCheck = () => {};
  sender = senderFor();
});
function senderFor(times: { pauseMs?: number } = {}): LogSender {
  return createLogSender({
    link: receiver.link(),
    claim: 'claim',
    offset: 0,
    limit: 8 * megabyte,
    disk: {
      allows: async () => {
        onDiskCheck();
        return !isDiskFull;
      },
    },
    spillFile: join(folder, 'spill'),
    signal: stop.signal,
    onGone: () => (wasGone = true),
    onCut: (reason) => void cuts.push(reason),
    onLost: (error) => void lost.push(error),
    ...times,
  });
}
afterEach(async () => {
  stop.abort();
  await sender.close();
  assert.ok(!existsSync(join(folder, 'spill')), 'the file is gone when the work is');
  rmSync(folder, { recursive: true });
});

/** Numbered lines, so that nothing can be missing, twice, or elsewhere without being seen. */
function lines(from: number, size: number): Buffer {
  let text = '';
  for (let number = from; text.length < size; number += 1) text += `${number}\n`;
  return Buffer.from(text.slice(0, size));
}

test('output arrives once and in order, in chunks that are not too large', async () => {
  const all = Array.from({ length: 40 }, (_, number) => lines(number * 1000, 1 + number * 7000));
  for (const piece of all) await sender.write(piece);
  assert.equal(await sender.end(), receiver.stored.length);
  assert.ok(receiver.stored.equals(Buffer.concat(all)));
  assert.ok(receiver.largest <= megabyte);
});

test('one piece that is larger than a chunk is cut', async () => {
  const piece = lines(0, 5 * megabyte + 17);
  await sender.write(piece);
  await sender.end();
  assert.ok(receiver.stored.equals(piece));
  assert.ok(receiver.largest <= megabyte);
});

test('pieces keep their order also when nobody waits for room', async () => {
  const all = Array.from({ length: 64 }, (_, number) => lines(number * 10_000, 100_000 - number));
  for (const piece of all) void sender.write(piece);
  await sender.end();
  assert.ok(receiver.stored.equals(Buffer.concat(all)));
});

test('while the server is away the work goes on, and everything is delivered when it is back', async () => {
  let isAway = true;
  receiver.answer = async (chunk) => {
    if (isAway) throw new Error('nobody answers');
    return receiver.take(chunk);
  };
  const all = Array.from({ length: 30 }, (_, number) => lines(number * 100_000, 100_000));
  for (const piece of all) await sender.write(piece);
  assert.ok(existsSync(join(folder, 'spill')), 'what memory does not hold is on the disk');
  isAway = false;
  const later = lines(7_000_000, 1000);
  await sender.write(later);
  assert.equal(await sender.end(), receiver.stored.length);
  assert.ok(receiver.stored.equals(Buffer.concat([...all, later])));
});

test('a chunk whose receipt was lost, or of which a part is stored, is sent again and stored once', async () => {
  let turn = 0;
  receiver.answer = (chunk) => {
    turn += 1;
    if (turn === 1) {
      receiver.take(chunk);
      throw new Error('the connection broke after the chunk was taken');
    }
    if (turn === 3) return { expected: chunk.offset }; // another try of it is on its way through the server
    if (turn === 4) {
      receiver.take({ ...chunk, bytes: chunk.bytes.subarray(0, 3) });
      return { expected: chunk.offset + 3 };
    }
    return receiver.take(chunk);
  };
  await sender.write(lines(0, 1000));
  await sender.end();
  await sender.write(lines(5000, 1000));
  assert.equal(await sender.end(), 2000);
  assert.ok(receiver.stored.equals(Buffer.concat([lines(0, 1000), lines(5000, 1000)])));
});

test('work that is not wanted any more is told so', async () => {
  receiver.answer = () => ({ gone: true });
  await sender.write(lines(0, 1000));
  await sender.end();
  assert.ok(wasGone);
  await sender.write(lines(0, 5 * megabyte)); // and does not wait for room that nobody makes
});

test('a server that has lost what it took ends the work, which can then be done again', async () => {
  await sender.write(lines(0, 1000));
  await sender.end();
  receiver.stored = receiver.stored.subarray(0, 10);
  await sender.write(lines(0, 1000));
  await sender.end();
  assert.ok(wasGone);
});

test('no write waits for ever once the runner is told to stop', async () => {
  receiver.answer = () => Promise.reject(new Error('nobody answers'));
  const written = sender.write(lines(0, 3 * megabyte));
  stop.abort(new Error('stopped'));
  await written;
  await assert.rejects(sender.end(), /stopped/);
});

test('at the limit it ends to the byte, and says so as soon as there is more', async () => {
  const all = lines(0, 8 * megabyte);
  await sender.write(all);
  assert.deepEqual(cuts, [], 'a log that is as long as it may be is not cut');
  await sender.write(lines(0, 1));
  assert.deepEqual(cuts, ['log_too_long']);
  await sender.write(lines(0, megabyte));
  assert.equal(await sender.end(), 8 * megabyte);
  assert.ok(receiver.stored.equals(all));
});

test('a piece that goes beyond the limit is taken up to it', async () => {
  const all = lines(0, 9 * megabyte);
  await sender.write(all);
  assert.deepEqual(cuts, ['log_too_long']);
  await sender.end();
  assert.ok(receiver.stored.equals(all.subarray(0, 8 * megabyte)));
});

test('a server that takes no more says why and what it has, and is sent nothing after that', async () => {
  let asked = 0;
  receiver.answer = (chunk) => {
    asked += 1;
    if (asked === 1) return receiver.take(chunk);
    return { refused: 'disk_full', size: receiver.stored.length };
  };
  await sender.write(lines(0, 1000));
  await sender.end();
  await sender.write(lines(1, 5 * megabyte));
  assert.equal(await sender.end(), 1000);
  assert.deepEqual(cuts, ['disk_full']);
  await sender.write(lines(2, megabyte));
  assert.equal(await sender.end(), 1000);
  assert.equal(asked, 2);
  assert.ok(!wasGone);
});

test('a chunk that the server rejects ends the log there, and is told once', async () => {
  const refusal = new RejectedError('the server answered log with 403');
  receiver.answer = async (chunk) => {
    if (chunk.offset > 0) throw refusal;
    return receiver.take(chunk);
  };
  await sender.write(lines(0, 1000));
  await sender.end();
  await sender.write(lines(1, 5 * megabyte)); // and does not wait for room that nobody makes
  assert.equal(await sender.end(), 1000, 'what the server has');
  await sender.write(lines(2, 1000));
  assert.equal(await sender.end(), 1000);
  assert.deepEqual(lost, [refusal]);
  assert.deepEqual(cuts, []);
  assert.ok(!wasGone);
});

/** Writes a lot while the server is away and the disk takes nothing; returns a function that brings the server back. */
async function waiting(): Promise<() => Promise<void>> {
  sender = senderFor({ pauseMs: 50 });
  const triedThrice = Promise.withResolvers<string>();
  let tries = 0;
  onDiskCheck = () => {
    tries += 1;
    if (tries === 3) triedThrice.resolve('waiting');
  };
  let isAway = true;
  receiver.answer = async (chunk) => {
    if (isAway) throw new Error('nobody answers');
    return receiver.take(chunk);
  };
  const all = lines(0, 4 * megabyte);
  const written = Promise.resolve(sender.write(all));
  const first = await Promise.race([written.then(() => 'written'), triedThrice.promise]);
  assert.equal(first, 'waiting');
  return async () => {
    isAway = false;
    await written;
    await sender.end();
    assert.ok(receiver.stored.equals(all));
  };
}

test('while the disk is full nothing is put there: the work waits, and nothing is lost', async () => {
  isDiskFull = true;
  const goOn = await waiting();
  assert.ok(!existsSync(join(folder, 'spill')));
  await goOn();
});

test('a disk that refuses what was promised makes the work wait too, and nothing is lost', async () => {
  rmSync(folder, { recursive: true }); // to write there fails
  const goOn = await waiting();
  mkdirSync(folder);
  await goOn();
});
