import type { Heartbeat } from '../auth/runner-heartbeats.ts';
import type { Runner } from '../auth/runners.ts';
import { ApiError } from '../../shared/errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { parseId } from '../../shared/lib/ids.ts';
import type { PlainRoutes, Head } from '../http/plain-routes.ts';
import { connectionPath, protocolHeader, protocolNumber, shellPath, version } from '../../shared/protocol/index.ts';
import { blobRoutes } from './blob-routes.ts';
import { asAnswer, mostMessageBytes } from './calls.ts';
import type { Dispatch } from './dispatch.ts';
import { readSlotsHeader, readTagsHeader } from './headers.ts';

/** The kernel probes a silent runner after this time, and gives it up ten seconds later. */
const vanishedAfterMs = 5000;

export interface RunnerRoutes {
  dispatch: Dispatch;
  /** Throws for any other caller. */
  identify: (head: Head) => Promise<Runner>;
}

export function runnerRoutes({ dispatch, identify }: RunnerRoutes): PlainRoutes<Runner> {
  return {
    provenBy: 'runner',
    async admit(head, reply) {
      head.raw.socket.setKeepAlive(true, vanishedAfterMs);
      const runner = await identify(head);
      reply.header('headrace-version', version);
      if (head.routeOptions.url !== connectionPath) return runner;
      const { headers } = head;
      const [tags, slots] = [readTagsHeader(headers), readSlotsHeader(headers)];
      const theirs = String(headers['headrace-version'] ?? '').slice(0, 64);
      const trouble = headers[protocolHeader] === protocolNumber ? '' : otherVersionMessage(theirs);
      const heartbeat: Heartbeat = { version: theirs, trouble, tags, slots };
      await dispatch.came(runner, heartbeat);
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
        demandRoom: (runner) => dispatch.demandRoom(runner),
        open: (socket, runner, wire) => dispatch.connect(socket, runner, wire),
      },
      {
        path: `${shellPath}:shell_id`,
        mostBytes: bytes.shellPacket,
        demandRoom: (runner) => dispatch.demandRoom(runner),
        open: (socket, runner, wire, { params }) =>
          dispatch.connectShell(socket, runner, wire, parseId((params as { shell_id: string }).shell_id) ?? 0n),
      },
    ],
  };
}

function otherVersionMessage(theirs: string): string {
  return `it is headrace ${theirs} and this server ${version}: they speak different protocols`;
}
