import type { BuildRow } from '../db/schema.ts';
import { services, type StoredService } from '../../shared/records/service.ts';
import { beginLogs } from '../streams/logs.ts';
import { storedServices, type BuildService, type ServiceProgress } from '../views/build-services.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

export type SuiteService = StoredService;

export const servicesIn = (column: string): SuiteService[] => services.fromColumn(column);

export function serviceLog(build: Pick<BuildRow, 'services'>, name: string): bigint | undefined {
  const found = storedServices(build).find((one) => one.name === name);
  return found && BigInt(found.log);
}

/** Maps each service to whether its data were already reported. */
export function toldOfData(build: Pick<BuildRow, 'services'>): ReadonlyMap<string, boolean> {
  return new Map(storedServices(build).map(({ name, data }) => [name, data !== undefined]));
}

type Build = Pick<BuildRow, 'id' | 'project_id' | 'services'>;

/** A build that is ordered again already has its services. */
export async function openServices({ trx, ids }: WriteContext, build: Build, names: readonly string[]): Promise<void> {
  if (names.length === 0 || build.services !== '[]') return;
  const opened = names.map((name): BuildService => ({ name, state: 'starting', log: String(ids.next()) }));
  await beginLogs(
    trx,
    opened.map(({ log }) => BigInt(log)),
    build.project_id,
  );
  await write(trx, build, opened);
}

/** Ignores reports on services that the build does not have. */
export async function noteServices(
  { db, trx }: WriteContext,
  build: Build,
  told: readonly ServiceProgress[],
): Promise<void> {
  const byName = new Map(told.map((one) => [one.name, one]));
  const noted = storedServices(build).map(({ log, ...known }) => ({ ...(byName.get(known.name) ?? known), log }));
  await write(trx, build, noted);
  await db.announce(trx, projectTopic(build.project_id));
}

async function write(trx: WriteContext['trx'], { id }: Pick<Build, 'id'>, stored: BuildService[]): Promise<void> {
  await trx
    .updateTable('builds')
    .set({ services: JSON.stringify(stored) })
    .where('id', '=', id)
    .execute();
}
