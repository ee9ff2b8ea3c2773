import { isUnavailable } from '../db/unavailable.ts';
import {
  endMark,
  lastWord,
  newsOf,
  lookAgainMs,
  topicsOf,
  type Followed,
  type Place,
  type Sight,
  type StreamEvent,
  type TailParts,
} from '../streams/tail.ts';
import { builtFor, followedRequest, lookAtRequest } from './followed.ts';

/**
 * A reader's position in each log of a build request: the fetch's log, and those of its builds. Written as the offset
 * in the first log, then `,<build>:<offset>` for each build with some output.
 */
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

export interface Told {
  event: StreamEvent;
  /** The build of this event; undefined for the request itself. */
  buildId?: bigint;
  position: Position;
  /** With the end: the position that a reader who has received it comes back with. */
  mark?: string;
}

interface Member {
  subject: Pick<Followed, 'id' | 'isFinal'>;
  place: Place;
  /** Everything about it was sent. */
  isTold?: boolean;
}

/** The fetch and all builds of a request in one stream, with builds that begin later. */
export async function* followRequest(
  parts: TailParts,
  id: bigint,
  position: Position,
  signal: AbortSignal,
): AsyncGenerator<Told> {
  const { db, subscriptions } = parts;
  const request: Member = { subject: followedRequest(db, id), place: { at: position.fetch } };
  const builds = new Map<bigint, Member>();
  let seen: bigint | undefined;
  while (!signal.aborted) {
    const open = [...builds.values()].filter(({ isTold }) => !isTold);
    const ofBuilds = open.flatMap(({ subject }) => topicsOf(subject.id));
    using watch = subscriptions.watch(...topicsOf(id), ...ofBuilds);
    try {
      const sight = await lookAtRequest(db, id, seen);
      const appeared = sight.builds.filter((buildId) => !builds.has(buildId));
      for (const buildId of appeared) {
        const place = { at: position.builds.get(buildId) ?? 0n };
        builds.set(buildId, { subject: builtFor(buildId), place });
      }
      for await (const event of newsOf(parts, request.subject, request.place, sight.of(id, request.place.seen))) {
        position.fetch = request.place.at;
        yield { event, position };
      }
      for (const [buildId, member] of builds)
        if (!member.isTold) yield* newsOfBuild(parts, member, position, sight.of(buildId, member.place.seen));
      seen = sight.seen; // not before all of it was sent
      if (request.place.over && [...builds.values()].every(({ isTold }) => isTold)) {
        for (const event of lastWord(request.place)) yield { event, position };
        yield { event: { type: 'end' }, position, mark: endMark(writePosition(position), request.place) };
        return;
      }
      if (appeared.length > 0) continue; // listen to the new builds before the next query
    } catch (error) {
      if (!isUnavailable(error)) throw error; // the client resumes from here when the database is back
    }
    await watch.changed(lookAgainMs, signal);
  }
}

async function* newsOfBuild(
  parts: TailParts,
  member: Member,
  position: Position,
  sight: Sight | undefined,
): AsyncGenerator<Told> {
  const { subject, place } = member;
  const buildId = subject.id;
  for await (const event of newsOf(parts, subject, place, sight)) {
    if (event.type === 'log') position.builds.set(buildId, place.at);
    yield { event, buildId, position };
  }
  for (const event of lastWord(place)) yield { event, buildId, position };
  member.isTold = place.over !== undefined;
}
