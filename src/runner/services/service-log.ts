import { setTimeout as delay } from 'node:timers/promises';
import { keepTail } from '../../shared/lib/tail.ts';
import { maskedLog } from '../masked-log.ts';

export interface LogSink {
  write(bytes: Buffer): void | Promise<void>;
}

const unkeptPauseMs = 10;

/** Drops output. The delay slows down a service with endless output, so that it takes no time from other builds. */
export async function unkept(): Promise<void> {
  await delay(unkeptPauseMs);
}

export interface ServiceLog {
  push(chunk: Buffer): Promise<void>;
  print(text: string): Promise<void>;
  flush(): Promise<void>;
  hide(secrets: readonly string[]): Promise<void>;
  lastLines(): string;
}

export const mostTail = 64 * 1024;
const mostLines = 50;

export function serviceLog(sink: LogSink, secrets: readonly string[]): ServiceLog {
  const tail = keepTail(mostTail);
  const masked = maskedLog({
    secrets,
    writeLog: (bytes) => {
      tail.add(bytes);
      return sink.write(bytes);
    },
  });
  return {
    push: (chunk) => masked.push(chunk),
    print: (text) => masked.print(text),
    flush: () => masked.flush(),
    hide: (more) => masked.hide(more),
    lastLines: () => tail.bytes().toString().trimEnd().split('\n').slice(-mostLines).join('\n'),
  };
}
