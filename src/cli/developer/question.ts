import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Screen } from './screen.ts';

/** Without a terminal, the line is read from standard input. */
export async function ask(screen: Screen, question: string): Promise<string> {
  return answerTo(question, screen.err, false);
}

export async function askSecret(screen: Screen, question: string): Promise<string> {
  const nowhere = new Writable({ write: (_piece, _encoding, done) => done() });
  // readline itself would show the typed text, so its output is discarded.
  const answer = answerTo('', nowhere, true);
  screen.err.write(question);
  const secret = await answer;
  screen.err.write('\n');
  return secret;
}

async function answerTo(question: string, output: NodeJS.WritableStream, terminal: boolean): Promise<string> {
  const lines = createInterface({ input: process.stdin, output, terminal });
  try {
    const nothing = once(lines, 'close').then(() => '');
    return (await Promise.race([lines.question(question), nothing])).trim();
  } finally {
    lines.close();
  }
}

export async function agrees(screen: Screen, question: string): Promise<boolean> {
  return /^y(es)?$/i.test(await ask(screen, `${question} [y/N] `));
}
