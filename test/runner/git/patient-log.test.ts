import assert from 'node:assert/strict';
import test from 'node:test';
import { logWriter, patientLog } from '../../../src/runner/git/narrator.ts';

function place() {
  const pieces: string[] = [];
  const log = patientLog((text) => void pieces.push(text.toString()));
  return { ...log, narrator: logWriter(log.writeLog), text: () => pieces.join('') };
}

test('a sentence stands before what programs said last, and after what was said before another sentence', async () => {
  const { narrator, conclude, text } = place();
  narrator.line('Connecting.');
  await narrator.output(Buffer.from('a banner\n'));
  narrator.line('Connecting anew.');
  await narrator.output(Buffer.from('Permission denied'));
  assert.equal(text(), 'Connecting.\na banner\nConnecting anew.\n');
  await conclude('Install the key.');
  assert.equal(
    text(),
    'Connecting.\na banner\nConnecting anew.\nInstall the key.\nWhat git and the host said:\nPermission denied\n',
  );
});

test('a sentence alone is told alone, and without one everything that was said is kept', async () => {
  const [silent, fine] = [place(), place()];
  await silent.conclude('It was moved.');
  assert.equal(silent.text(), 'It was moved.\n');
  await fine.narrator.output(Buffer.from('From host\n'));
  await fine.release();
  assert.equal(fine.text(), 'From host\n');
});

test('much, or what comes slowly, is not waited with', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const [much, slow] = [place(), place()];
  const line = Buffer.from(`${'x'.repeat(1023)}\n`);
  for (let count = 0; count < 65; count += 1) await much.narrator.output(line);
  assert.equal(much.text().length, 65 * 1024);
  await slow.narrator.output(Buffer.from('patience\n'));
  t.mock.timers.tick(10_000);
  await slow.narrator.output(Buffer.from('more\n'));
  assert.equal(slow.text(), 'patience\nmore\n');
});
