import type { Queries } from '../db/open.ts';
import {
  buildMachine,
  buildRequestMachine,
  dependencyMachine,
  deployMachine,
  isFinal,
  type Machine,
} from '../lifecycle/states.ts';
import type { Followed, SeenState, Snapshot } from '../streams/tail.ts';

interface Row {
  now: string;
  size: bigint | null;
  state: string | null;
  sequence: bigint | null;
  /** The present owner of the log, if that is another record. */
  log?: bigint | null;
}

type ReadEvents = (db: Queries, id: bigint, after: bigint) => Promise<readonly Readonly<Row>[]>;

// One query reads the events after a sequence, the record's existence and its log's size.
const buildEvents =
  (log: bigint): ReadEvents =>
  (db, id, after) =>
    db
      .selectFrom('builds as record')
      .leftJoin('logs', (join) => join.on('logs.id', '=', log))
      .leftJoin('events', (join) => join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', after))
      .select(['record.build_state as now', 'logs.size', 'events.state', 'events.sequence'])
      .where('record.id', '=', id)
      .orderBy('events.sequence')
      .execute();
const deployEvents =
  (log: bigint): ReadEvents =>
  (db, id, after) =>
    db
      .selectFrom('deploys as record')
      .leftJoin('logs', (join) => join.on('logs.id', '=', log))
      .leftJoin('events', (join) => join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', after))
      .select(['record.state as now', 'logs.size', 'events.state', 'events.sequence'])
      // The suite's newest build may have changed.
      .select((of) =>
        of
          .selectFrom('builds')
          .select((build) => build.fn.max('builds.id').as('id'))
          .whereRef('builds.deploy_id', '=', 'record.id')
          .whereRef('builds.suite_id', '=', 'record.suite_id')
          .as('log'),
      )
      .where('record.id', '=', id)
      .orderBy('events.sequence')
      .execute();

// Events of dependencies have their own table, because they may concern no project or many projects.
const dependencyEvents: ReadEvents = (db, id, after) =>
  db
    .selectFrom('dependencies as record')
    .leftJoin('logs', 'logs.id', 'record.id')
    .leftJoin('dependency_events', (join) =>
      join.onRef('dependency_events.dependency_id', '=', 'record.id').on('dependency_events.sequence', '>', after),
    )
    .select(['record.state as now', 'logs.size', 'dependency_events.state', 'dependency_events.sequence'])
    .where('record.id', '=', id)
    .orderBy('dependency_events.sequence')
    .execute();

export function followedDependency(db: Queries, id: bigint): Followed {
  return followed(db, id, dependencyEvents, dependencyMachine);
}

export function followedBuild(db: Queries, id: bigint, log: bigint): Followed {
  return { ...followed(db, id, buildEvents(log), buildMachine), log };
}

export function followedDeploy(db: Queries, id: bigint, log: bigint): Followed {
  return { ...followed(db, id, deployEvents(log), deployMachine), log };
}

function followed<State extends string>(
  db: Queries,
  id: bigint,
  events: ReadEvents,
  machine: Machine<State>,
): Followed {
  return {
    id,
    isFinal: (state) => isFinal(machine, state as State),
    read: async (after) => sightOf(await events(db, id, after ?? 0n), after),
  };
}

function sightOf(rows: readonly Readonly<Row>[], after: bigint | undefined): Snapshot | undefined {
  const [first] = rows;
  if (!first) return undefined;
  const { log } = first;
  const size = first.size ?? 0n;
  const seen = rows.flatMap(({ state, sequence }): SeenState[] =>
    state === null || sequence === null || sequence <= (after ?? 0n) ? [] : [{ state, sequence }],
  );
  const whole = { size, ...(typeof log === 'bigint' && { log }) };
  if (after !== undefined) return { states: seen, ...whole };
  // A dependency has no event before its first change.
  return { states: [seen.at(-1) ?? { state: first.now, sequence: 0n }], ...whole };
}

/** Events are numbered within a project, so one number covers the request and all its builds. */
const requestEvents = (db: Queries, id: bigint, after: bigint): Promise<(Row & { id: bigint })[]> =>
  db
    .selectFrom((from) =>
      from
        .selectFrom('build_requests')
        .select(['id', 'build_state as now'])
        .where('id', '=', id)
        .unionAll(
          from
            .selectFrom('builds')
            .select(['id', 'build_state as now'])
            .where('build_request_id', '=', id)
            .where('checks_id', 'is', null),
        )
        .as('record'),
    )
    .leftJoin('logs', 'logs.id', 'record.id')
    .leftJoin('events', (join) => join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', after))
    .select(['record.id', 'record.now', 'logs.size', 'events.state', 'events.sequence'])
    .orderBy('record.id')
    .orderBy('events.sequence')
    .execute();

export interface RequestSight {
  builds: bigint[];
  /** The state and log of the request or of one of its builds. Undefined if the record is deleted. */
  of(id: bigint, after: bigint | undefined): Snapshot | undefined;
  seen: bigint;
}

export async function readRequest(db: Queries, id: bigint, after = 0n): Promise<RequestSight> {
  const rows = await requestEvents(db, id, after);
  const byRecord = Map.groupBy(rows, (row) => row.id);
  return {
    builds: [...byRecord.keys()].filter((record) => record !== id),
    of: (record, since) => sightOf(byRecord.get(record) ?? [], since),
    seen: rows.reduce((most, { sequence }) => (sequence !== null && sequence > most ? sequence : most), after),
  };
}

export function followedRequest(db: Queries, id: bigint): Followed {
  return {
    id,
    isFinal: (state) => isFinal(buildRequestMachine, state as never),
    read: async (after) => (await readRequest(db, id, after)).of(id, after),
  };
}

export function builtFor(id: bigint): Pick<Followed, 'id' | 'isFinal'> {
  return { id, isFinal: (state) => isFinal(buildMachine, state as never) };
}
