import { mostTail, serviceLog, unkept, type ServiceLog } from './service-log.ts';

/** The runs of a `ready_command`. The last run explains why a service did not become ready. */
export interface Probe {
  /** Takes output of the current run. */
  hear(chunk: Buffer): Promise<void>;
  /** Ends the current run, after all its output was taken. */
  ended(status: number): Promise<void>;
  /** The exit status of the last ended run. */
  status(): number | undefined;
  /** A sentence with the last lines of that run, or of the first run if none has ended. */
  lastLines(): string;
}

export function openProbe(secrets: readonly string[]): Probe {
  let running: ServiceLog | undefined;
  let last: { status: number; lines: string } | undefined;
  const begin = (): ServiceLog => {
    let heard = 0;
    return serviceLog(
      {
        write(bytes) {
          heard += bytes.length;
          return heard > mostTail ? unkept() : undefined;
        },
      },
      secrets,
    );
  };
  return {
    hear: (chunk) => (running ??= begin()).push(chunk),
    async ended(status) {
      const log = running;
      running = undefined;
      await log?.flush();
      last = { status, lines: log?.lastLines() ?? '' };
    },
    status: () => last?.status,
    lastLines() {
      const lines = last ? last.lines : (running?.lastLines() ?? '');
      return lines === '' ? 'ready_command printed nothing.' : `The last lines of ready_command:\n${lines}`;
    },
  };
}
