import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maskedLog, type MaskedLog } from '../../src/runner/masked-log.ts';

/** A log that takes no more until the test lets it. */
function slowLog(secrets: string[]): { log: MaskedLog; text: () => string; takeAll: () => void } {
  const written: Buffer[] = [];
  const slow = Promise.withResolvers<void>();
  const writeLog = (bytes: Buffer): Promise<void> => {
    written.push(Buffer.from(bytes));
    return slow.promise;
  };
  return {
    log: maskedLog({ writeLog, secrets }),
    text: () => Buffer.concat(written).toString(),
    takeAll: slow.resolve,
  };
}

test('a secret that is added while the log is slow loses nothing, and is hidden from then on', async () => {
  const { log, text, takeAll } = slowLog(['first-secret']);
  const first = log.push(Buffer.from('begin first-'));
  const hiding = log.hide(['second-secret']);
  // Both masks hold back the beginning of a secret.
  const rest = [log.push(Buffer.from('se')), log.push(Buffer.from('ven and second-secret and fir'))];
  takeAll();
  await Promise.all([first, hiding, ...rest]);
  await log.flush();
  assert.equal(text(), 'begin first-seven and [masked] and fir');
});

test('a line that is ended while the log is slow ends before what follows', async () => {
  const { log, text, takeAll } = slowLog(['first-secret']);
  const first = log.push(Buffer.from('one fir'));
  const line = log.newLine();
  const next = log.push(Buffer.from('two\n'));
  takeAll();
  await Promise.all([first, next]);
  assert.equal(await line, 2);
  assert.equal(text(), 'one fir\ntwo\n');
});
