import type { Queries } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import {
  endMark,
  lastWord,
  news,
  lookAgainMs,
  topicsOf,
  type Followed,
  type Place,
  type StreamEvent,
  type TailParts,
} from '../streams/tail.ts';
import { followedBuild, followedRequest } from './followed.ts';

/**
 * How far a reader has come with each log of a build request: the fetch's, and those of its builds. Written as the
 * offset in the first, then `,<build>:<offset>` for each build of which something was told.
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
  /** The build that it is about; the request itself where there is none. */
  buildId?: bigint;
  position: Position;
  /** With the end: what a reader who has heard it comes back with. */
  mark?: string;
}

interface Member {
  subject: Followed;
  place: Place;
  /** Everything about it was told. */
  isTold?: boolean;
}

/** The fetch and all builds of a request in one stream, those that appear while it goes on included. */
export async function* followRequest(
  parts: TailParts,
  id: bigint,
  position: Position,
  signal: AbortSignal,
): AsyncGenerator<Told> {
  const request: Member = { subject: followedRequest(parts.db, id), place: { at: position.fetch } };
  const builds = new Map<bigint, Member>();
  while (!signal.aborted) {
    const open = [...builds.values()].filter(({ isTold }) => !isTold);
    const ofBuilds = open.flatMap(({ subject }) => topicsOf(subject.id));
    using watch = parts.subscriptions.watch(...topicsOf(id), ...ofBuilds);
    try {
      for await (const event of news(parts, request.subject, request.place)) {
        position.fetch = request.place.at;
        yield { event, position };
      }
      for (const member of open) yield* newsOfBuild(parts, member, position);

      const appeared = (await buildsOf(parts.db, id)).filter((buildId) => !builds.has(buildId));
      for (const buildId of appeared) {
        const place = { at: position.builds.get(buildId) ?? 0n };
        builds.set(buildId, { subject: followedBuild(parts.db, buildId), place });
      }
      if (appeared.length > 0) continue;
      if (request.place.over && [...builds.values()].every(({ isTold }) => isTold)) {
        for (const event of lastWord(request.place)) yield { event, position };
        yield { event: { type: 'end' }, position, mark: endMark(writePosition(position), request.place) };
        return;
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error; // it goes on from here when the database is back
    }
    await watch.changed(lookAgainMs, signal);
  }
}

async function* newsOfBuild(parts: TailParts, member: Member, position: Position): AsyncGenerator<Told> {
  const { subject, place } = member;
  const buildId = subject.id;
  for await (const event of news(parts, subject, place)) {
    if (event.type === 'log') position.builds.set(buildId, place.at);
    yield { event, buildId, position };
  }
  for (const event of lastWord(place)) yield { event, buildId, position };
  member.isTold = place.over !== undefined;
}

async function buildsOf(db: Queries, requestId: bigint): Promise<bigint[]> {
  const builds = db.selectFrom('builds').select('id').where('build_request_id', '=', requestId).orderBy('id');
  return (await builds.execute()).map(({ id }) => id);
}
