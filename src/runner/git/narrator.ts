/** Takes text for a log, piece by piece, as it comes. */
export type Say = (text: Buffer | string) => void;

/** Lays our own sentences between the output of programs, each on a line of its own. */
export interface Narrator {
  output: (chunk: Buffer) => void;
  line: (sentence: string) => void;
}

export function narrate(say: Say): Narrator {
  let atLineStart = true;
  const tell = (text: Buffer | string): void => {
    if (text.length === 0) return;
    atLineStart = typeof text === 'string' ? text.endsWith('\n') : text.at(-1) === 10;
    say(text);
  };
  return {
    output: tell,
    line: (sentence) => tell(`${atLineStart ? '' : '\n'}${sentence}\n`),
  };
}
