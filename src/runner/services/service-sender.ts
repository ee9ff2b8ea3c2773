import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { Link, ServiceState } from '../../shared/protocol/index.ts';
import { createLogSender, type LogSender } from '../log-sender.ts';
import { untilAnswered } from '../retry.ts';
import { unkept, type LogSink } from './service-log.ts';

export interface ServiceSender {
  openLog: (name: string) => LogSink;
  note: (states: readonly ServiceState[]) => void;
  /** Resolves with the final states when the server has all logs. */
  end(): Promise<ServiceState[]>;
  close(): Promise<void>;
}

interface Options {
  link: Link;
  claim: string;
  /** Limit on the bytes of each log. */
  limit: number;
  spillFile: (name: string) => string;
  disk: Pick<DiskReserve, 'allows'>;
  signal: AbortSignal;
  onGone: () => void;
  onLost: (error: unknown) => void;
}

export function createServiceSender(options: Options): ServiceSender {
  const { link, claim, limit, spillFile, disk, signal, onGone, onLost } = options;
  const senders = new Map<string, LogSender>();
  let latest: readonly ServiceState[] = [];
  let isChanged = false;
  let sending: Promise<void> | undefined;
  const send = async (): Promise<void> => {
    while (isChanged && !signal.aborted) {
      isChanged = false;
      const services = [...latest];
      await untilAnswered(signal, () => link.services({ claim, services }, signal));
    }
  };
  return {
    openLog(name) {
      // Beyond the limit the service continues. Only its further output is not stored.
      const room = limit - Buffer.byteLength(cutHere);
      let written = 0;
      const sender = createLogSender({
        link: { ...link, log: (chunk, until) => link.log({ ...chunk, service: name }, until) },
        claim,
        offset: 0,
        limit,
        spillFile: spillFile(name),
        disk,
        signal,
        onGone,
        onCut: () => {},
        onLost,
      });
      senders.set(name, sender);
      return {
        write(bytes) {
          if (written > room) return unkept();
          const kept = bytes.subarray(0, room - written);
          written += bytes.length;
          return sender.write(written > room ? Buffer.concat([kept, Buffer.from(cutHere)]) : kept);
        },
      };
    },
    note(states) {
      latest = states;
      isChanged = true;
      sending ??= send()
        .catch(() => {}) // the final report has the states
        .finally(() => (sending = undefined));
    },
    async end() {
      await sending;
      for (const sender of senders.values()) await sender.end();
      return [...latest];
    },
    async close() {
      isChanged = false;
      await sending;
      for (const sender of senders.values()) await sender.close();
    },
  };
}

const cutHere = '\nThe log was cut here, because it reached the size limit. The service continued.\n';
