import type { Screen } from './screen.ts';

/** Asks for one line. Where nobody sits at a terminal, it is read from what is piped in. */
export async function ask(screen: Screen, question: string): Promise<string> {
  screen.err.write(question);
  const { stdin } = process;
  const { promise, resolve } = Promise.withResolvers<string>();
  let text = '';
  const take = (piece: Buffer): void => {
    text += piece.toString();
    const end = text.indexOf('\n');
    if (end >= 0) resolve(text.slice(0, end));
  };
  const end = (): void => resolve(text);
  stdin.on('data', take).on('end', end);
  try {
    return (await promise).trim();
  } finally {
    stdin.off('data', take).off('end', end);
    stdin.pause();
  }
}
