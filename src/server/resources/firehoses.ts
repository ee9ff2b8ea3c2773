import type { Call, WithCaller, WithProject } from '../api/call.ts';
import { projectRoute } from '../api/route.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import type { EventRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../../shared/errors.ts';
import { text } from '../../shared/records/fields.ts';
import type { StreamAnswer } from '../http/route.ts';
import type { StreamWriter } from '../../shared/lib/stream-writer.ts';
import { projectTopic } from '../lifecycle/write-context.ts';
import { wireFor, withKeepAlive, type Wire } from '../streams/firehose.ts';
import { follow } from '../streams/follow.ts';
import { isStillOver, readAgainMs, type Followed, type TailParts } from '../streams/tail.ts';
import { eventRecord } from '../../shared/records/log.ts';
import { followedRequest } from './followed.ts';
import { namedIn, shared, type Logged } from './logs.ts';
import { followRequest, formOfPosition, readPosition, writePosition, type RequestEvent } from './request-stream.ts';

const streams = ['text/event-stream', 'application/x-ndjson'] as const;
const plainOffset = /^\d{1,15}$/;

interface Resumption {
  from: string | undefined;
  ended?: bigint;
}

/** The `Last-Event-ID` that a browser sends takes precedence over the query. */
function resumption(call: { headers: Call['headers']; query: { offset: string } }, form: RegExp): Resumption {
  const last = call.headers['last-event-id'];
  if (last === undefined) return { from: call.query.offset === '' ? undefined : call.query.offset };
  const [, from = '', ended] = /^([^;]*)(?:;(\d{1,18}))?$/.exec(String(last)) ?? [];
  if (!form.test(from)) throw new ApiError('invalid_format', 'last_event_id');
  return ended === undefined ? { from } : { from, ended: BigInt(ended) };
}

/** Ends a stream that a browser has fully received. With any other status it would reconnect for ever. */
const nothingMore = { status: 204 } as const;

function streamed({ contentType, keepAlive }: Wire, texts: AsyncGenerator<string>): StreamAnswer {
  return { contentType, body: withKeepAlive(texts, keepAlive) };
}

const fromPosition = {
  offset: text('position', {
    pattern: plainOffset,
    description: 'From where to go on: the identifier of the last event',
  }),
};

const live = { query: fromPosition, streams, hasEvents: true, answer: eventRecord } as const;

export function recordFirehose<const Path extends string, Context extends WithCaller>(
  logged: Logged<Path, Context>,
  followed: (db: Queries, id: bigint, log: bigint) => Followed,
  name = logged.name,
) {
  return logged.route({
    ...shared(logged),
    ...live,
    path: `${logged.path}/firehose`,
    summary: `Follow ${name} live, from the start of its log or from an offset`,
    async handle(call) {
      const id = namedIn(call.params, logged.param);
      return tailOf(call, (log) => followed(call.db, id, log), await logged.findLog(call));
    },
  });
}

type Following = TailParts & Pick<Call, 'headers' | 'signal'> & { query: { offset: string } };

/** Sends the log from the caller's position. If another log replaces it, that log is sent from its start. */
async function tailOf(call: Following, following: (log: bigint) => Followed, first: bigint): Promise<StreamAnswer> {
  const { from = 0, ended } = resumption(call, plainOffset);
  const subject = following(first);
  if (ended !== undefined && (await isStillOver(subject, ended))) return nothingMore;
  const wire = wireFor(call.headers.accept);
  const write = async (writer: StreamWriter): Promise<void> => {
    let place = await follow(call, subject, wire, { at: BigInt(from) }, writer);
    while (place?.movedTo !== undefined) {
      const { movedTo: log, ...seen } = place;
      place = await follow(call, following(log), wire, { ...seen, at: 0n }, writer);
    }
  };
  return { contentType: wire.contentType, write };
}

export function requestFirehose<const Path extends string>(logged: Logged<Path, WithProject>) {
  return projectRoute({
    ...shared(logged),
    ...live,
    access: 'public',
    path: `${logged.path}/firehose`,
    summary:
      'Follow a build request live: its fetch and all its builds. The identifier of an event has the position in each log: ' +
      'the offset in the log of the fetch, and for each build a comma, its identifier, a colon and the offset',
    query: {
      offset: text('positions', {
        pattern: formOfPosition,
        description: 'From where to go on: the identifier of the last event',
      }),
    },
    async handle(call) {
      const id = await logged.findLog(call);
      const { from = '0', ended } = resumption(call, formOfPosition);
      if (ended !== undefined && (await isStillOver(followedRequest(call.db, id), ended))) return nothingMore;
      const position = readPosition(from);
      const wire = wireFor(call.headers.accept);
      const events = followRequest(call, id, position, call.signal);
      return streamed(wire, writtenOfRequest(call.project.role === 'public' ? ofBuilds(events) : events, wire));
    },
  });
}

/** The log of the fetch may name addresses, which the public must not see. */
async function* ofBuilds(events: ReturnType<typeof followRequest>): AsyncGenerator<RequestEvent> {
  for await (const one of events) if (one.buildId !== undefined || one.event.type === 'end') yield one;
}

async function* writtenOfRequest(events: AsyncIterable<RequestEvent>, wire: Wire): AsyncGenerator<string> {
  for await (const { event, buildId, position, mark } of events) {
    const labels: Record<string, string> = buildId === undefined ? {} : { build_id_str: String(buildId) };
    yield wire.encode(event, labels, event.type === 'log' ? writePosition(position) : mark);
  }
}

export const projectFirehose = projectRoute({
  method: 'GET',
  path: '/projects/:project_id/firehose',
  access: 'public',
  scope: 'projects',
  summary: 'Follow everything that happens in a project, from now on or from an event on',
  ...live,
  async handle(call) {
    const { db, project } = call;
    const { from } = resumption(call, plainOffset);
    const wire = wireFor(call.headers.accept);
    const start = from === undefined ? ((await lastEvent(db, project.id)) ?? 0n) : BigInt(from);
    return streamed(wire, projectEvents(call, project, start, wire));
  },
});

async function lastEvent(db: Queries, projectId: bigint): Promise<bigint | undefined> {
  const projects = db.selectFrom('projects').select('last_event').where('id', '=', projectId);
  return (await projects.executeTakeFirst())?.last_event;
}

/** Events are read in batches, so a reader far behind needs no more memory than others. */
const batch = 200;

type ProjectEvent = Pick<EventRow, 'sequence' | 'type' | 'subject_id' | 'state'>;

/** The public does not see deploys. */
const isFor = ({ role }: Pick<VisibleProject, 'role'>, { type }: ProjectEvent): boolean =>
  role !== 'public' || type !== 'deploy';

const eventsAfter = (db: Queries, projectId: bigint, seen: bigint): Promise<ProjectEvent[]> =>
  db
    .selectFrom('events')
    .select(['sequence', 'type', 'subject_id', 'state'])
    .where('project_id', '=', projectId)
    .where('sequence', '>', seen)
    .orderBy('sequence')
    .limit(batch)
    .execute();

async function* projectEvents(
  { db, subscriptions, signal }: { db: Queries } & Pick<Call, 'subscriptions' | 'signal'>,
  project: Pick<VisibleProject, 'id' | 'role'>,
  start: bigint,
  wire: Wire,
): AsyncGenerator<string> {
  const { id: projectId } = project;
  using watch = subscriptions.watch(projectTopic(projectId));
  let seen = start;
  while (!signal.aborted) {
    try {
      const events = await eventsAfter(db, projectId, seen);
      const shown = events.filter((event) => isFor(project, event));
      const encoded = shown.map(({ type, subject_id: id, state, sequence }) =>
        wire.encode({ type: 'state', state }, { type, id_str: String(id) }, String(sequence)),
      );
      seen = events.at(-1)?.sequence ?? seen;
      if (encoded.length > 0) yield encoded.join(''); // one write for all pieces
      if (events.length === batch) continue;
      if (events.length === 0 && (await lastEvent(db, projectId)) === undefined) {
        yield wire.encode({ type: 'end' }, {}, undefined); // the project was deleted
        return;
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error; // the client resumes from here when the database is back
    }
    await watch.changed(readAgainMs, signal);
  }
}
