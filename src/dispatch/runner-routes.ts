import type { Visit } from '../auth/runner-heartbeats.ts';
import type { Runner } from '../auth/runners.ts';
import { ApiError } from '../errors.ts';
import type { BareRoutes, Head } from '../http/plain-routes.ts';
import { connectionPath, protocolHeader, protocolNumber, version } from '../protocol/index.ts';
import { blobRoutes } from './blob-routes.ts';
import { asAnswer, mostMessageBytes } from './calls.ts';
import type { Dispatch } from './dispatch.ts';
import { readPlacesHeader, readTagsHeader } from './headers.ts';

/** The kernel asks a silent runner after this time whether it is still there, and ten seconds later gives it up. */
const vanishedAfterMs = 5000;

export interface RunnerRoutes {
  dispatch: Dispatch;
  /** Returns the runner that calls, and throws for anybody else. */
  identify: (head: Head) => Promise<Runner>;
}

/** The routes for runners, the same on the Unix socket and on HTTPS: one connection, and blobs beside it. */
export function runnerRoutes({ dispatch, identify }: RunnerRoutes): BareRoutes<Runner> {
  return {
    provenBy: 'runner',
    async admit(head, reply) {
      head.raw.socket.setKeepAlive(true, vanishedAfterMs);
      const runner = await identify(head);
      reply.header('headrace-version', version);
      if (head.routeOptions.url !== connectionPath) return runner;
      const { headers } = head;
      const [tags, places] = [readTagsHeader(headers), readPlacesHeader(headers)];
      const theirs = String(headers['headrace-version'] ?? '').slice(0, 64);
      const trouble = headers[protocolHeader] === protocolNumber ? '' : wordsAbout(theirs);
      const visit: Visit = { version: theirs, trouble, tags, places };
      await dispatch.came(runner, visit);
      if (trouble !== '') throw new ApiError('invalid_format', protocolHeader);
      return { ...runner, tags };
    },
    refuse(error) {
      if (error instanceof ApiError) return undefined;
      const answer = asAnswer(error);
      return answer && { status: answer.status, content: answer.body };
    },
    routes: blobRoutes(dispatch),
    sockets: [
      {
        path: connectionPath,
        mostBytes: mostMessageBytes,
        open: (socket, runner) => dispatch.connect(socket, runner),
      },
    ],
  };
}

function wordsAbout(theirs: string): string {
  return `it is headrace ${theirs} and this server ${version}: they speak different protocols`;
}
