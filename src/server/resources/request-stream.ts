import { isUnavailable } from '../db/unavailable.ts';
import {
  endMark,
  finalState,
  newEventsIn,
  readAgainMs,
  topicsOf,
  type Followed,
  type ReadPosition,
  type Snapshot,
  type StreamEvent,
  type TailParts,
} from '../streams/tail.ts';
import { builtFor, followedRequest, readRequest } from './followed.ts';

/** The offset in the fetch's log, then `,<build>:<offset>` for each build with output. */
export interface Position {
  fetch: bigint;
  builds: Map<bigint, bigint>;
}

export const formOfPosition = /^\d{1,15}(,\d{1,18}:\d{1,15}|,\d{19}:\d{1,15})*$/;

export function readPosition(text: string): Position {
  const [fetch = '0', ...pairs] = text.split(',');
  const builds = pairs.map((pair) => {
    const [id = '0', offset = '0'] = pair.split(':');
    return [BigInt(id), BigInt(offset)] as const;
  });
  return { fetch: BigInt(fetch), builds: new Map(builds) };
}

export function writePosition({ fetch, builds }: Position): string {
  return [String(fetch), ...Array.from(builds, ([id, offset]) => `${id}:${offset}`)].join();
}

export interface RequestEvent {
  event: StreamEvent;
  buildId?: bigint;
  position: Position;
  /** Only in the end event: a reader that has received it sends this position when it returns. */
  mark?: string;
}

interface Member {
  subject: Pick<Followed, 'id' | 'isFinal'>;
  read: ReadPosition;
  isSent?: boolean;
}

/** Follows a request and its builds, also builds that begin later. */
export async function* followRequest(
  parts: TailParts,
  id: bigint,
  position: Position,
  signal: AbortSignal,
): AsyncGenerator<RequestEvent> {
  const { db, subscriptions } = parts;
  const request: Member = { subject: followedRequest(db, id), read: { at: position.fetch } };
  const builds = new Map<bigint, Member>();
  let seen: bigint | undefined;
  while (!signal.aborted) {
    const open = [...builds.values()].filter(({ isSent }) => !isSent);
    const ofBuilds = open.flatMap(({ subject }) => topicsOf(subject));
    using watch = subscriptions.watch(...topicsOf({ id }), ...ofBuilds);
    try {
      const snapshot = await readRequest(db, id, seen);
      const appeared = snapshot.builds.filter((buildId) => !builds.has(buildId));
      for (const buildId of appeared) {
        const read = { at: position.builds.get(buildId) ?? 0n };
        builds.set(buildId, { subject: builtFor(buildId), read });
      }
      for await (const event of newEventsIn(parts, request.subject, request.read, snapshot.of(id, request.read.seen))) {
        position.fetch = request.read.at;
        yield { event, position };
      }
      for (const [buildId, member] of builds)
        if (!member.isSent) yield* newEventsOfBuild(parts, member, position, snapshot.of(buildId, member.read.seen));
      seen = snapshot.seen; // only after everything was sent
      if (request.read.over && [...builds.values()].every(({ isSent }) => isSent)) {
        for (const event of finalState(request.read)) yield { event, position };
        yield { event: { type: 'end' }, position, mark: endMark(writePosition(position), request.read) };
        return;
      }
      if (appeared.length > 0) continue; // listen to the new builds before the next query
    } catch (error) {
      if (!isUnavailable(error)) throw error; // the client resumes from here when the database is back
    }
    await watch.changed(readAgainMs, signal);
  }
}

async function* newEventsOfBuild(
  parts: TailParts,
  member: Member,
  position: Position,
  snapshot: Snapshot | undefined,
): AsyncGenerator<RequestEvent> {
  const { subject, read } = member;
  const buildId = subject.id;
  for await (const event of newEventsIn(parts, subject, read, snapshot)) {
    if (event.type === 'log') position.builds.set(buildId, read.at);
    yield { event, buildId, position };
  }
  for (const event of finalState(read)) yield { event, buildId, position };
  member.isSent = read.over !== undefined;
}
