import { WebSocket } from 'ws';
import type { Runner } from '../auth/runners.ts';
import { LeaseLapsedError } from '../db/node-lease.ts';
import { BlobsAwayError, isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../errors.ts';
import { bytes, most } from '../lib/bounds.ts';
import { createPassingBytes } from '../lib/passing-bytes.ts';
import {
  blobsAwayField,
  decodeMessage,
  DrainedError,
  encodeMessage,
  type CallName,
  type Calls,
  type ToRunner,
} from '../protocol/index.ts';
import type { Dispatch } from './dispatch.ts';
import {
  readClaim,
  readClaims,
  readId,
  readKeptLayers,
  readLogChunk,
  readLooked,
  readName,
  readProjects,
  readReport,
  readRoom,
  readShellEnd,
  readShellInput,
  readShellOutput,
  readShellsAsked,
  readUploaded,
  readWish,
} from './messages.ts';
import { readTests } from './test-messages.ts';

/** What a runner said, and for how long the answer is of use to it. */
interface Said {
  runner: Runner;
  message: Record<string, unknown>;
  signal: AbortSignal;
}

interface Handler<Name extends CallName> {
  /** The largest message. */
  mostBytes: number;
  /** The answer may take long, although there is nothing to do for it. */
  waits?: true;
  answer(dispatch: Dispatch, said: Said): Promise<Calls[Name]['answer']>;
}

/** The largest message with claims alone. */
const short = 1024;

const handlers: { [Name in CallName]: Handler<Name> } = {
  next: {
    mostBytes: short,
    waits: true,
    async answer(dispatch, { runner, message, signal }) {
      try {
        return { order: (await dispatch.next(runner, readWish(message), signal)) ?? null };
      } catch (error) {
        if (error instanceof DrainedError) return { order: null, end: true };
        throw error;
      }
    },
  },
  leave: {
    mostBytes: bytes.body,
    async answer(dispatch, { runner, message }) {
      dispatch.leaveOff(runner, readClaims(message));
      return {};
    },
  },
  demand: { mostBytes: short, answer: (dispatch, { runner }) => dispatch.demand(runner) },
  log: {
    mostBytes: bytes.logChunk + short,
    answer: (dispatch, { runner, message }) => dispatch.log(runner, readLogChunk(message)),
  },
  tests: {
    mostBytes: bytes.testReports,
    answer: (dispatch, { runner, message }) => dispatch.tests(runner, readTests(message)),
  },
  extend: {
    mostBytes: bytes.body,
    waits: true,
    answer: async (dispatch, { runner, message, signal }) => ({
      signals: await dispatch.extend(runner, readClaims(message), signal),
    }),
  },
  finish: {
    mostBytes: bytes.runnerReport,
    answer: (dispatch, { runner, message }) => dispatch.finish(runner, readReport(message)),
  },
  uploaded: {
    mostBytes: 64 * 1024,
    answer: (dispatch, { runner, message }) => dispatch.uploaded(runner, readUploaded(message)),
  },
  key: {
    mostBytes: short,
    async answer(dispatch, { runner, message }) {
      const privateKey = await dispatch.key(runner, readClaim(message));
      return privateKey === undefined ? {} : { privateKey };
    },
  },
  registry: {
    mostBytes: short,
    async answer(dispatch, { runner, message }) {
      const registry = await dispatch.registry(runner, readClaim(message));
      return registry === undefined ? {} : { registry };
    },
  },
  looks: {
    mostBytes: short,
    waits: true,
    answer: async (dispatch, { runner, message, signal }) => ({
      looks: await dispatch.looks(runner, readRoom(message), signal),
    }),
  },
  looked: {
    mostBytes: bytes.lookReports,
    async answer(dispatch, { runner, message }) {
      await dispatch.looked(runner, readLooked(message));
      return {};
    },
  },
  gone: {
    mostBytes: 64 * 1024,
    answer: async (dispatch, { runner, message }) => ({
      gone: await dispatch.goneProjects(runner, readProjects(message)),
    }),
  },
  stale: {
    mostBytes: 256 * 1024,
    answer: async (dispatch, { runner, message }) => ({
      stale: await dispatch.staleLayers(runner, readKeptLayers(message)),
    }),
  },
  shells: {
    mostBytes: short,
    waits: true,
    answer: async (dispatch, { runner, message, signal }) => ({
      shells: await dispatch.shells(runner, readShellsAsked(message), signal),
    }),
  },
  shellInput: {
    mostBytes: short,
    waits: true,
    async answer(dispatch, { runner, message, signal }) {
      const typed = await dispatch.shellInput(runner, readShellInput(message), signal);
      return typed === undefined ? {} : { bytes: typed };
    },
  },
  shellOutput: {
    mostBytes: bytes.shellOutput + short,
    waits: true,
    answer: async (dispatch, { runner, message, signal }) =>
      (await dispatch.shellOutput(runner, readShellOutput(message), signal)) ?? {},
  },
  shellEnd: {
    mostBytes: short,
    async answer(dispatch, { runner, message }) {
      await dispatch.shellEnd(runner, readShellEnd(message));
      return {};
    },
  },
};

const names: ReadonlySet<string> = new Set(Object.keys(handlers));

/** The largest of all messages. */
export const mostMessageBytes = Math.max(...Object.values(handlers).map(({ mostBytes }) => mostBytes));

/** A runner's socket is not read while so many of its calls are being answered, or calls with so many bytes. */
const mostAtWork = 8;
const mostBytesAtWork = 4 * 1024 * 1024;
/** So many more may wait for their answers: above all, one for each place that is free. */
const mostWaiting = most.claims;
/** A runner that leaves so much unread of its answers is disconnected. */
const mostUnread = 16 * 1024 * 1024;

export interface CallParts {
  dispatch: Dispatch;
  /** Turns an error of a lower layer into an API error, where there is one for it. */
  translate: (error: unknown) => ApiError | undefined;
  /** A call failed, and it is not the runner's fault. */
  onTrouble: (error: unknown, name: string) => void;
}

interface Call {
  id: number;
  name: CallName;
  message: Record<string, unknown>;
  size: number;
}

/** Answers the calls of a runner until the signal. */
export function serveCalls(socket: WebSocket, runner: Runner, signal: AbortSignal, parts: CallParts): void {
  const { dispatch, translate, onTrouble } = parts;
  const calls: Call[] = [];
  const passing = createPassingBytes();
  let [atWork, bytesAtWork, waiting] = [0, 0, 0];

  const send = (answer: ToRunner & { bytes?: Uint8Array }): void => {
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    if (socket.bufferedAmount > mostUnread) socket.terminate();
    else socket.send(encodeMessage(answer));
  };
  const answer = async ({ id, name, message }: Call): Promise<void> => {
    try {
      send({ ...(await handlers[name].answer(dispatch, { runner, message, signal })), id });
    } catch (error) {
      if (signal.aborted) return;
      const known = asAnswer(error) ?? translate(error);
      if (!known) onTrouble(error, name);
      send({ id, status: known?.status ?? 500, ...(known?.body ?? { error: { generic: [] } }) });
    }
  };
  const work = async (call: Call): Promise<void> => {
    const { waits } = handlers[call.name];
    if (waits && waiting >= mostWaiting) {
      send({ id: call.id, status: 403, ...new ApiError('resource_temporary_unavailable').body });
      return;
    }
    if (waits) waiting += 1;
    else [atWork, bytesAtWork] = [atWork + 1, bytesAtWork + call.size];
    await answer(call);
    passing.passed(call.size);
    if (waits) waiting -= 1;
    else [atWork, bytesAtWork] = [atWork - 1, bytesAtWork - call.size];
    begin();
  };
  const nextCall = (): Call | undefined =>
    !signal.aborted && atWork < mostAtWork && bytesAtWork < mostBytesAtWork ? calls.shift() : undefined;
  /** Whoever stores slower than a runner sends stops reading: what is not read is not in memory. */
  const begin = (): void => {
    for (let call = nextCall(); call; call = nextCall()) void work(call);
    if (calls.length > 0) socket.pause();
    else if (socket.isPaused) socket.resume();
  };
  const take = (data: Buffer, isBinary: boolean): void => {
    const message = decodeMessage(data, isBinary);
    const id = readId(message);
    try {
      const name = readName(message, names);
      if (data.length > handlers[name].mostBytes) throw new ApiError('invalid_format');
      calls.push({ id, name, message, size: data.length });
    } catch (error) {
      send({ id, status: 403, ...(error as ApiError).body });
    }
  };
  socket.on('message', (data: Buffer, isBinary) => {
    if (signal.aborted) return;
    try {
      take(data, isBinary);
      begin();
    } catch {
      socket.close(1007); // it is no call: there is nothing to answer
    }
  });
}

/** Other statuses than for callers of the API: to a runner, 4xx means that a repetition is useless. */
export function asAnswer(error: unknown): Pick<ApiError, 'status' | 'body'> | undefined {
  if (error instanceof ApiError) return error;
  if (!isUnavailable(error) && !(error instanceof LeaseLapsedError)) return undefined;
  const field = error instanceof BlobsAwayError ? blobsAwayField : undefined;
  return { status: 503, body: new ApiError('resource_temporary_unavailable', field).body };
}
