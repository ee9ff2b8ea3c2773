import type { BuildRow } from '../db/schema.ts';
import type { serviceStates } from '../../shared/domain/service-states.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import type { Build } from '../../shared/records/build.ts';

/** As the runner reports it. Times are milliseconds since the build began. */
export interface ServiceProgress {
  name: string;
  state: (typeof serviceStates)[number];
  from?: number;
  ready?: number;
  to?: number;
  status?: number;
  /** The data that the service began with, or stored for other builds. */
  data?: object;
}

/** The ID of its log is text, because JSON has no 64 bits. */
export interface BuildService extends ServiceProgress {
  log: string;
}

export function storedServices({ services }: Pick<BuildRow, 'services'>): BuildService[] {
  return JSON.parse(services) as BuildService[];
}

export function logsOfServices(build: Pick<BuildRow, 'services'>): bigint[] {
  return storedServices(build).map(({ log }) => BigInt(log));
}

/** Services end with the build, even if its runner did not report it. */
export function servicesOf(build: Pick<BuildRow, 'services' | 'started_at' | 'finished_at'>): Build['services'] {
  const { started_at: began, finished_at: over } = build;
  const at = (ms: number | undefined): bigint | null =>
    ms === undefined || began === null ? null : began + BigInt(ms);
  return storedServices(build).map(({ name, state, from, ready, to, status }) => {
    const isCutOff = over !== null && state !== 'stopped' && state !== 'failed';
    return {
      name,
      state: isCutOff ? 'stopped' : state,
      started_at: timestampOrNull(at(from)),
      ready_at: timestampOrNull(at(ready)),
      finished_at: timestampOrNull(isCutOff ? over : at(to)),
      exit_status: status ?? null,
    };
  });
}
