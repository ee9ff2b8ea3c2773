import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { Screen } from './screen.ts';

/** Asks for one line. Without a terminal, it is read from standard input. */
export async function ask(screen: Screen, question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: screen.err, terminal: false });
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
