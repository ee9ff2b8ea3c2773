import { createMask } from '../shared/domain/masking.ts';
import { countBreaks } from '../shared/lib/count-breaks.ts';

/** A build's log without its secrets. */
export interface MaskedLog {
  readonly secrets: readonly string[];
  push(chunk: Buffer): Promise<void>;
  readonly print: (text: string) => Promise<void>;
  /** Writes the text that was held back because it could be the beginning of a secret. */
  flush(): Promise<void>;
  /** Masks these secrets too, from now on. */
  hide(secrets: readonly string[]): Promise<void>;
  /** Ends the current line. Returns the number of the next one. */
  newLine(): Promise<number>;
}

interface Options {
  writeLog: (bytes: Buffer) => void | Promise<void>;
  secrets: readonly string[];
  /** The number of lines in the log so far. */
  lines?: number | undefined;
}

const lineBreak = 0x0a;

export function maskedLog({ writeLog, secrets: first, lines = 0 }: Options): MaskedLog {
  const secrets = [...first];
  let mask = createMask(secrets);
  let breaks = lines;
  let isOpen = false;
  const show = async (bytes: Buffer): Promise<void> => {
    if (bytes.length === 0) return;
    breaks += countBreaks(bytes);
    isOpen = bytes.at(-1) !== lineBreak;
    await writeLog(bytes);
  };
  return {
    secrets,
    push: (chunk) => show(mask.push(chunk)),
    print: (text) => show(mask.push(Buffer.from(text))),
    flush: () => show(mask.flush()),
    // More output may arrive during a slow write, so the mask is replaced before the write is awaited.
    hide(more) {
      const held = mask.flush();
      secrets.push(...more);
      mask = createMask(secrets);
      return show(held);
    },
    async newLine() {
      const held = show(mask.flush());
      const ended = isOpen ? show(Buffer.from('\n')) : undefined;
      const next = breaks + 1;
      await held;
      await ended;
      return next;
    },
  };
}

/** Masks the secrets in all logs at once. Otherwise one log could show them while another log is slow. */
export async function hideIn(logs: readonly Pick<MaskedLog, 'hide'>[], secrets: readonly string[]): Promise<void> {
  await Promise.all(logs.map((log) => log.hide(secrets)));
}
