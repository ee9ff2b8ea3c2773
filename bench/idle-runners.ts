import { setTimeout as pause } from 'node:timers/promises';
import { randomName } from '../src/shared/lib/random-name.ts';
import { mostPolls } from '../src/shared/protocol/index.ts';
import { openLink, type OpenLink } from '../src/runner/link.ts';
import { onBoth, type DatabaseName, type Databases } from './support/databases.ts';
import { untilIdle } from './support/idle.ts';
import { processorSeconds } from './support/processor-time.ts';
import { round, type Figure } from './support/report.ts';
import { registerRunners } from './support/runners.ts';
import { residentMegabytes, startHeadrace, type Service } from './support/servers.ts';

const runners = 1000;
const measuredSeconds = 60;
/** By then all calls wait, and the memory for the handshakes is free again. */
const settlingSeconds = 20;
/** The number that connect at a time. */
const connecting = 20;

/** The cost of a thousand idle runners for one server. */
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
      from: `${measuredSeconds} s measured`,
    },
  ];
}

interface Crowd extends Disposable {
  connections: number;
  throwIfAnyFailed(): void;
}

/** Each waits for orders and for polls, like an idle runner with two slots for builds. */
export async function connectAll(service: Service, tokens: readonly string[]): Promise<Crowd> {
  const all: OpenLink[] = [];
  let failure: unknown;
  const over = new AbortController();
  const open = async (token: string): Promise<void> => {
    const link = openLink({ url: service.url, token, slots: 2 });
    all.push(link);
    await link.gone({ projects: [] }, over.signal);
    const slots = ['builds', 'builds', 'fetches', 'fetches'] as const;
    const waiting = [
      ...slots.map((slot) => link.next({ claim: randomName(), slot }, over.signal)),
      link.polls({ room: mostPolls }, over.signal),
    ];
    Promise.all(waiting).catch((error: unknown) => void (over.signal.aborted || (failure ??= error)));
  };
  const waiting = [...tokens];
  const connect = async (): Promise<void> => {
    for (let token = waiting.pop(); token !== undefined; token = waiting.pop()) await open(token);
  };
  await Promise.all(Array.from({ length: connecting }, connect));
  return {
    connections: all.length,
    throwIfAnyFailed() {
      if (failure !== undefined) throw new Error('a call failed', { cause: failure });
    },
    [Symbol.dispose]() {
      over.abort();
      for (const link of all) link.close();
    },
  };
}
