/** Takes text for a log, piece by piece. The result settles when there is room for more. */
export type Say = (text: Buffer | string) => void | Promise<void>;

/** Puts our own sentences between the output of programs, each on a separate line. */
export interface Narrator {
  /** A caller that passes on a program's output must await this, because otherwise long output piles up in memory. */
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
    // A log that accepts no more output ends the job elsewhere.
    line: (sentence) => void tell(`${atLineStart ? '' : '\n'}${sentence}\n`).catch(() => {}),
  };
}
