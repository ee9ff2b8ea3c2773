import { setTimeout as pause } from 'node:timers/promises';
import { randomName } from '../src/lib/random-name.ts';
import { mostLooks, version } from '../src/protocol/index.ts';
import { onBoth, type DatabaseName, type Databases } from './support/databases.ts';
import { untilIdle } from './support/idle.ts';
import { openConnection, type Connection } from './support/load.ts';
import { processorSeconds } from './support/processor-time.ts';
import { round, type Figure } from './support/report.ts';
import { registerRunners } from './support/runners.ts';
import { residentMegabytes, startHeadrace, type Service } from './support/servers.ts';

const runners = 1000;
const measuredSeconds = 60;
/** By then all are held, and what was needed for the handshakes is given back. */
const settlingSeconds = 20;
/** So many connect at a time. */
const connecting = 20;

/** What a thousand runners cost one server while there is nothing to do. */
export async function idleRunnerFigures(databases: Databases): Promise<Figure[]> {
  const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
    const service = await startHeadrace(undefined, settings, { flags: ['--no-runner'] });
    try {
      return await measure(service, name);
    } finally {
      await service.stop();
    }
  });
  return [...sqlite, ...postgres];
}

async function measure(service: Service, name: DatabaseName): Promise<Figure[]> {
  const tokens = await registerRunners(service, runners);
  await untilIdle(service.pid);
  const memory = residentMegabytes(service.pid);
  using crowd = await connectAll(service, tokens);
  await pause(settlingSeconds * 1000);
  const used = processorSeconds(service.pid);
  await pause(measuredSeconds * 1000);
  const share = (processorSeconds(service.pid) - used) / measuredSeconds;
  const more = residentMegabytes(service.pid) - memory;
  crowd.throwIfAnyFailed();
  return [
    {
      what: `${runners} idle runners on ${name}, more memory of the server, MB`,
      value: more,
      limit: { atMost: 150 },
      from: `${round(memory + more)} MB against ${round(memory)} MB, ${crowd.connections} connections`,
    },
    {
      what: `${runners} idle runners on ${name}, in processors`,
      value: share,
      limit: { atMost: 0.05 },
      from: `${crowd.answered()} answers in all, ${measuredSeconds} s measured`,
    },
  ];
}

interface Crowd extends Disposable {
  connections: number;
  answered(): number;
  throwIfAnyFailed(): void;
}

/** Each holds what an idle runner holds, one request for work and looks, and comes again when it is answered. */
export async function connectAll(service: Service, tokens: readonly string[]): Promise<Crowd> {
  const all: Connection[] = [];
  let answered = 0;
  let failure: unknown;
  let isOver = false;
  const askForEver = async (connection: Connection): Promise<void> => {
    for (;;) {
      await connection.ask();
      answered += 1;
    }
  };
  const open = async (token: string): Promise<void> => {
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'headrace-version': version,
    };
    const body = JSON.stringify({ claim: randomName(), room: mostLooks });
    const connection = await openConnection({
      url: `${service.url}/runner/next`,
      method: 'POST',
      headers,
      body: () => body,
    });
    all.push(connection);
    void askForEver(connection).catch((error: unknown) => void (isOver || (failure ??= error)));
  };
  const waiting = [...tokens];
  const connect = async (): Promise<void> => {
    for (let token = waiting.pop(); token !== undefined; token = waiting.pop()) await open(token);
  };
  await Promise.all(Array.from({ length: connecting }, connect));
  return {
    connections: all.length,
    answered: () => answered,
    throwIfAnyFailed() {
      if (failure !== undefined) throw new Error('a request failed', { cause: failure });
    },
    [Symbol.dispose]() {
      isOver = true;
      for (const connection of all) connection[Symbol.dispose]();
    },
  };
}
