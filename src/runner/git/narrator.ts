/** The result settles when there is room for more. */
export type WriteLog = (text: Buffer | string) => void | Promise<void>;

export interface LogWriter {
  /** Must be awaited, because otherwise long output piles up in memory. */
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

/** Programs mostly print a line or two. Longer output goes to the log at once. */
const mostHeld = 64 * 1024;
/** A user may be watching a slow host. */
const longestHeldMs = 10_000;

export interface PatientLog {
  writeLog: WriteLog;
  /** Writes the sentence, and the held output below it. */
  conclude: (sentence: string) => Promise<void>;
  release: () => Promise<void>;
}

/** Holds back program output (bytes) until a sentence of ours (a string, see `logWriter`) or the end. */
export function patientLog(writeLog: WriteLog): PatientLog {
  let held: Buffer[] = [];
  let size = 0;
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const release = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const output = Buffer.concat(held);
    held = [];
    size = 0;
    if (output.length > 0) await writeLog(output);
  };
  return {
    release,
    async writeLog(text) {
      if (typeof text !== 'string' && !isOver && size + text.length <= mostHeld) {
        timer ??= setTimeout(() => {
          isOver = true;
          void release().catch(() => {}); // a log that accepts no more output ends the job elsewhere
        }, longestHeldMs).unref();
        held.push(text);
        size += text.length;
        return;
      }
      isOver ||= typeof text !== 'string';
      const waiting = release(); // both writes begin at once, so that no other text comes between them
      await Promise.all([waiting, writeLog(text)]);
    },
    async conclude(sentence) {
      const told = held.length === 0 ? `${sentence}\n` : `${sentence}\nWhat git and the host said:\n`;
      const ending = held.at(-1)?.at(-1) === 10 || held.length === 0 ? '' : '\n';
      await Promise.all([writeLog(told), release(), ...(ending === '' ? [] : [writeLog(ending)])]);
    },
  };
}
