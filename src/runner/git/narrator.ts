/** Takes text for a log, piece by piece. The result settles when there is room for more. */
export type WriteLog = (text: Buffer | string) => void | Promise<void>;

/** Puts our own sentences between the output of programs, each on a separate line. */
export interface LogWriter {
  /** A caller that passes on a program's output must await this, because otherwise long output piles up in memory. */
  output: (chunk: Buffer) => Promise<void>;
  line: (sentence: string) => void;
}

export function logWriter(writeLog: WriteLog): LogWriter {
  let atLineStart = true;
  const write = async (text: Buffer | string): Promise<void> => {
    if (text.length === 0) return;
    atLineStart = typeof text === 'string' ? text.endsWith('\n') : text.at(-1) === 10;
    await writeLog(text);
  };
  return {
    output: write,
    // A log that accepts no more output ends the job elsewhere.
    line: (sentence) => void write(`${atLineStart ? '' : '\n'}${sentence}\n`).catch(() => {}),
  };
}
