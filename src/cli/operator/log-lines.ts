/** On a terminal, a log line is written for users, and repetitions are only counted. */

export type LogFormat = 'text' | 'json';

const levels: Record<number, string> = { 10: 'trace', 20: 'debug', 30: '', 40: 'warning', 50: 'error', 60: 'fatal' };

interface Line {
  level: number;
  time: number;
  msg?: string;
  err?: Written | string;
  repeated?: number;
  [more: string]: unknown;
}

interface Written {
  message: string;
  stack?: string;
  cause?: Written | string;
}

/** Time, level, message, and other facts. The line may contain untrusted text. */
export function inWords(text: string, showsStack = false): string {
  const { level, time, msg = '', err, repeated, ...more } = JSON.parse(text) as Line;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const message = [msg, ...reasonsOf(err)].filter((part) => part !== '').join(': ');
  const facts = Object.entries(more).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const kind = levels[level] ?? '';
  const count = repeated === undefined ? '' : ` (${repeated} more times)`;
  const line = `${clock} ${kind === '' ? '' : `${kind}: `}${message}${facts.length > 0 ? ` [${facts.join(', ')}]` : ''}${count}`;
  const stack = showsStack && typeof err === 'object' ? (err.stack ?? '').split('\n').slice(1) : [];
  return [line, ...stack].map((one) => `${printable(one)}\n`).join('');
}

function reasonsOf(error: Line['err']): string[] {
  if (error === undefined) return [];
  return typeof error === 'string' ? [error] : [error.message, ...reasonsOf(error.cause)];
}

/** A terminal obeys control characters, and those that change text direction hide what follows. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, (character) =>
    character === '\n' ? ' ' : `\\u${character.codePointAt(0)?.toString(16).padStart(4, '0')}`,
  );
}

const mostRemembered = 100;

/** Counts equal lines within `everyMs`, then writes their number. */
export function countRepeats(
  write: (line: string) => void,
  everyMs = 60_000,
): { write(line: string): void; flush(): void } {
  const recent = new Map<string, { line: string; repeated: number; timer: NodeJS.Timeout }>();
  const tell = (key: string): void => {
    const known = recent.get(key);
    if (!known) return;
    clearTimeout(known.timer);
    if (known.repeated === 0) return void recent.delete(key);
    write(known.line.replace(/\}\n?$/, `,"repeated":${known.repeated}}\n`));
    recent.set(key, { ...known, repeated: 0, timer: later(key) });
  };
  const later = (key: string): NodeJS.Timeout => setTimeout(tell, everyMs, key).unref();
  return {
    write(line) {
      const key = line.replace(/"time":\d+/, '');
      const known = recent.get(key);
      if (known) {
        known.repeated += 1;
        known.line = line;
        return;
      }
      if (recent.size < mostRemembered) recent.set(key, { line, repeated: 0, timer: later(key) });
      write(line);
    },
    flush() {
      for (const key of recent.keys()) tell(key);
      for (const { timer } of recent.values()) clearTimeout(timer);
      recent.clear();
    },
  };
}
