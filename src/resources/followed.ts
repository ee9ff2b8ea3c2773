import type { Queries } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import {
  buildMachine,
  buildRequestMachine,
  dependencyMachine,
  deployMachine,
  isFinal,
  type Machine,
} from '../lifecycle/states.ts';
import type { Followed, SeenState } from '../streams/tail.ts';

interface Row {
  now: string;
  state: string | null;
  sequence: bigint | null;
}

type Looking = (db: Queries, values: { id: bigint; after: bigint }) => Promise<readonly Readonly<Row>[]>;

// A record's events since one, in one look with whether it is there at all.
const buildEvents: Looking = prepared((db, value) =>
  db
    .selectFrom('builds as record')
    .leftJoin('events', (join) =>
      join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', value('after')),
    )
    .select(['record.build_state as now', 'events.state', 'events.sequence'])
    .where('record.id', '=', value('id'))
    .orderBy('events.sequence'),
);
const requestEvents: Looking = prepared((db, value) =>
  db
    .selectFrom('build_requests as record')
    .leftJoin('events', (join) =>
      join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', value('after')),
    )
    .select(['record.build_state as now', 'events.state', 'events.sequence'])
    .where('record.id', '=', value('id'))
    .orderBy('events.sequence'),
);
const deployEvents: Looking = prepared((db, value) =>
  db
    .selectFrom('deploys as record')
    .leftJoin('events', (join) =>
      join.onRef('events.subject_id', '=', 'record.id').on('events.sequence', '>', value('after')),
    )
    .select(['record.state as now', 'events.state', 'events.sequence'])
    .where('record.id', '=', value('id'))
    .orderBy('events.sequence'),
);

// What happens to a dependency is written down apart from any project, because it may concern none or many.
const dependencyEvents: Looking = prepared((db, value) =>
  db
    .selectFrom('dependencies as record')
    .leftJoin('dependency_events', (join) =>
      join
        .onRef('dependency_events.dependency_id', '=', 'record.id')
        .on('dependency_events.sequence', '>', value('after')),
    )
    .select(['record.state as now', 'dependency_events.state', 'dependency_events.sequence'])
    .where('record.id', '=', value('id'))
    .orderBy('dependency_events.sequence'),
);

export function followedDependency(db: Queries, id: bigint): Followed {
  return followed(db, id, dependencyEvents, dependencyMachine);
}

export function followedBuild(db: Queries, id: bigint): Followed {
  return followed(db, id, buildEvents, buildMachine);
}

export function followedRequest(db: Queries, id: bigint): Followed {
  return followed(db, id, requestEvents, buildRequestMachine);
}

export function followedDeploy(db: Queries, id: bigint): Followed {
  return followed(db, id, deployEvents, deployMachine);
}

function followed<State extends string>(db: Queries, id: bigint, events: Looking, machine: Machine<State>): Followed {
  return {
    id,
    isFinal: (state) => isFinal(machine, state as State),
    async states(after) {
      const rows = await events(db, { id, after: after ?? 0n });
      const [first] = rows;
      if (!first) return undefined;
      const seen = rows.flatMap(({ state, sequence }): SeenState[] =>
        state === null || sequence === null ? [] : [{ state, sequence }],
      );
      if (after !== undefined) return seen;
      // A record that is older than events has none until something happens to it.
      return [seen.at(-1) ?? { state: first.now, sequence: 0n }];
    },
  };
}
