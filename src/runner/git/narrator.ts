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

/** What programs say of a fetch is most often a line or two. More than that goes to the log as it comes. */
const mostHeld = 64 * 1024;
/** Somebody may be watching a host that says something now and then. */
const longestHeldMs = 10_000;

/** A log in which a sentence can stand before what programs have said last. */
export interface PatientLog {
  writeLog: WriteLog;
  /** The sentence, and below it what was said. */
  conclude: (sentence: string) => Promise<void>;
  release: () => Promise<void>;
}

/**
 * Holds back the output of programs until a sentence of ours comes, which stands below what was said before it, or until the
 * end. Programs write bytes, and sentences are strings (`logWriter`).
 */
export function patientLog(writeLog: WriteLog): PatientLog {
  let held: Buffer[] = [];
  let size = 0;
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const release = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const said = Buffer.concat(held);
    held = [];
    size = 0;
    if (said.length > 0) await writeLog(said);
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
      const waiting = release(); // both are handed on at once, so that nothing comes in between
      await Promise.all([waiting, writeLog(text)]);
    },
    async conclude(sentence) {
      const told = held.length === 0 ? `${sentence}\n` : `${sentence}\nWhat git and the host said:\n`;
      const ending = held.at(-1)?.at(-1) === 10 || held.length === 0 ? '' : '\n';
      await Promise.all([writeLog(told), release(), ...(ending === '' ? [] : [writeLog(ending)])]);
    },
  };
}
