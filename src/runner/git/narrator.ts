/** Takes text for a log, piece by piece, as it comes. What it answers is settled when there is room for more. */
export type Say = (text: Buffer | string) => void | Promise<void>;

/** Lays our own sentences between the output of programs, each on a line of its own. */
export interface Narrator {
  /** Who passes a program's output on must wait for the answer, or the log of a flood piles up in memory. */
  output: (chunk: Buffer) => Promise<void>;
  line: (sentence: string) => void;
}

export function narrate(say: Say): Narrator {
  let atLineStart = true;
  const tell = async (text: Buffer | string): Promise<void> => {
    if (text.length === 0) return;
    atLineStart = typeof text === 'string' ? text.endsWith('\n') : text.at(-1) === 10;
    await say(text);
  };
  return {
    output: tell,
    // A log that takes nothing any more ends the work by other ways.
    line: (sentence) => void tell(`${atLineStart ? '' : '\n'}${sentence}\n`).catch(() => {}),
  };
}
