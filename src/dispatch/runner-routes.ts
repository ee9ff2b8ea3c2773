import type { IncomingMessage } from 'node:http';
import type { Visit } from '../auth/runner-visits.ts';
import type { Runner } from '../auth/runners.ts';
import { LeaseLapsedError } from '../db/node-lease.ts';
import { BlobsAwayError, isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../errors.ts';
import { json } from '../http/bare-bodies.ts';
import type { BareCall, BareRoute, BareRoutes, Head } from '../http/bare-routes.ts';
import { unreadable } from '../http/raw.ts';
import { bytes } from '../lib/bounds.ts';
import { blobsAwayField, DrainedError, protocolNumber, version } from '../protocol/index.ts';
import { blobRoutes } from './blob-routes.ts';
import { createChunkBuffers, type ChunkBuffers, type HeldChunk } from './chunk-buffers.ts';
import type { Dispatch } from './dispatch.ts';
import { readTests } from './test-messages.ts';
import {
  readClaim,
  readClaimHeader,
  readClaims,
  readHold,
  readKeptLayers,
  readLooked,
  readOffsetHeader,
  readProjects,
  readReport,
  readRoom,
  readPlace,
  readPlacesHeader,
  readShellEnd,
  readShellInput,
  readShellOutput,
  readShellsAsked,
  readTagsHeader,
  readUploaded,
  readWantedRoom,
} from './messages.ts';

/** The kernel asks a silent runner after this time whether it is still there, and ten seconds later gives it up. */
const vanishedAfterMs = 5000;

/** The largest body of messages with claims only. */
const short = 1024;

export interface RunnerRoutes {
  dispatch: Dispatch;
  /** Returns the runner that calls, and throws for anybody else. */
  identify: (head: Head) => Promise<Runner>;
  /** Somebody came; `trouble` says why they were turned away. */
  note: (runner: Runner, visit: Visit) => Promise<void>;
}

/**
 * The routes for runners, the same on the Unix socket and on HTTPS. `note` records each runner that is let in or
 * refused.
 */
export function runnerRoutes({ dispatch, identify, note }: RunnerRoutes): BareRoutes<Runner> {
  const buffers = createChunkBuffers(bytes.logChunk);
  return {
    provenBy: 'runner',
    async admit(head, reply) {
      // A machine that vanished does not hang up: without this, its request would be held, and be given work.
      head.raw.socket.setKeepAlive(true, vanishedAfterMs);
      const runner = await identify(head);
      reply.header('headrace-version', version);
      reply.header('headrace-protocol', protocolNumber);
      // Its next request comes on a new connection, which a balancer leads to a server that has work for it.
      if (dispatch.isQuiet() && head.raw.httpVersionMajor === 1) reply.header('connection', 'close');
      const theirs = String(head.headers['headrace-version'] ?? '').slice(0, 64);
      const isUnderstood = (head.headers['headrace-protocol'] ?? protocolNumber) === protocolNumber;
      const tags = readTagsHeader(head.headers);
      const places = readPlacesHeader(head.headers);
      await note(runner, { version: theirs, trouble: isUnderstood ? '' : wordsAbout(theirs), tags, places });
      if (!isUnderstood) throw new ApiError('invalid_format', 'headrace-protocol');
      return { ...runner, tags };
    },
    // Other statuses than for callers of the API: to a runner, 4xx means that a retry is useless.
    refuse(error) {
      if (!isUnavailable(error) && !(error instanceof LeaseLapsedError)) return undefined;
      const field = error instanceof BlobsAwayError ? blobsAwayField : undefined;
      return { status: 503, content: new ApiError('resource_temporary_unavailable', field).body };
    },
    routes: [
      post('/runner/next', json(short), async ({ admitted, body, signal }) => {
        const [claim, room] = [readClaim(body), readWantedRoom(body)];
        const runner = { ...admitted, place: readPlace(body) };
        try {
          if (room !== undefined) return await dispatch.nextOrLooks(runner, { claim, room }, signal);
          return { order: (await dispatch.next(runner, claim, signal, readHold(body))) ?? null };
        } catch (error) {
          if (error instanceof DrainedError) return { order: null, end: true };
          throw error;
        }
      }),
      post('/runner/leave', json(bytes.body), async ({ admitted, body }) => {
        dispatch.leaveOff(admitted, readClaims(body));
        return {};
      }),
      post('/runner/demand', json(short), ({ admitted }) => dispatch.demand(admitted)),
      post('/runner/log', chunk(buffers), async ({ admitted, head: { headers }, body }) => {
        using held = body;
        const place = { claim: readClaimHeader(headers), offset: readOffsetHeader(headers) };
        return await dispatch.log(admitted, { ...place, bytes: held.bytes });
      }),
      post('/runner/tests', json(bytes.testReports), ({ admitted, body }) => dispatch.tests(admitted, readTests(body))),
      post('/runner/extend', json(bytes.body), async ({ admitted, body, signal }) => ({
        words: await dispatch.extend(admitted, readClaims(body), signal),
      })),
      post('/runner/finish', json(bytes.runnerReport), ({ admitted, body }) =>
        dispatch.finish(admitted, readReport(body)),
      ),
      post('/runner/uploaded', json(64 * 1024), ({ admitted, body }) =>
        dispatch.uploaded(admitted, readUploaded(body)),
      ),
      post('/runner/key', json(short), async ({ admitted, body }) => {
        const privateKey = await dispatch.key(admitted, readClaim(body));
        return privateKey === undefined ? { gone: true } : { privateKey };
      }),
      post('/runner/registry', json(short), async ({ admitted, body }) => {
        const registry = await dispatch.registry(admitted, readClaim(body));
        return registry === undefined ? { gone: true } : { registry };
      }),
      post('/runner/looks', json(short), async ({ admitted, body, signal }) => ({
        looks: await dispatch.looks(admitted, readRoom(body), signal),
      })),
      post('/runner/looked', json(bytes.lookReports), async ({ admitted, body }) => {
        await dispatch.looked(admitted, readLooked(body));
        return {};
      }),
      post('/runner/gone', json(64 * 1024), async ({ admitted, body }) => ({
        gone: await dispatch.goneProjects(admitted, readProjects(body)),
      })),
      post('/runner/stale', json(256 * 1024), async ({ admitted, body }) => ({
        stale: await dispatch.staleLayers(admitted, readKeptLayers(body)),
      })),
      post('/runner/shells', json(short), async ({ admitted, body, signal }) => ({
        shells: await dispatch.shells(admitted, readShellsAsked(body), signal),
      })),
      post('/runner/shell/input', json(short), async ({ admitted, body, signal }) => {
        const bytes = await dispatch.shellInput(admitted, readShellInput(body), signal);
        return bytes === undefined ? { gone: true } : { bytes: bytes.toString('base64') };
      }),
      post('/runner/shell/output', json(bytes.body), async ({ admitted, body, signal }) => {
        const answer = await dispatch.shellOutput(admitted, readShellOutput(body), signal);
        return answer ?? { gone: true };
      }),
      post('/runner/shell/end', json(short), async ({ admitted, body }) => {
        await dispatch.shellEnd(admitted, readShellEnd(body));
        return {};
      }),
      ...blobRoutes(dispatch),
    ],
  };
}

function post<Body>(
  path: string,
  body: (request: IncomingMessage) => Promise<Body>,
  work: (call: BareCall<Runner, Body>) => Promise<object>,
): BareRoute<Runner> {
  const route: BareRoute<Runner, Body> = {
    method: 'POST',
    path,
    body,
    handle: async (call) => ({ content: await work(call) }),
  };
  return route;
}

/** A chunk of log. A runner always sends its length. */
function chunk(buffers: ChunkBuffers): (request: IncomingMessage) => Promise<HeldChunk> {
  return async (request) => {
    const length = Number(request.headers['content-length']);
    if (!Number.isSafeInteger(length) || length > bytes.logChunk) throw unreadable();
    return buffers.read(request, length);
  };
}

function wordsAbout(theirs: string): string {
  return `it is headrace ${theirs} and this server ${version}: they speak different protocols`;
}
