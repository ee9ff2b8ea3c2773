import { WebSocket } from 'ws';
import type { Runner } from '../auth/runners.ts';
import { LeaseLapsedError } from '../db/node-lease.ts';
import { BlobsAwayError, isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../errors.ts';
import { bytes, most } from '../lib/bounds.ts';
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
  readKeptTrees,
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

/** The largest message, how it is answered, and whether that may take long although there is nothing to do for it. */
type Handler<Name extends CallName> = readonly [
  mostBytes: number,
  answer: (to: Dispatch, runner: Runner, said: unknown, signal: AbortSignal) => Promise<Calls[Name]['answer']>,
  waits?: 'waits',
];

/** The largest message with claims alone. */
const short = 1024;
const outputBytes = bytes.shellOutput + short;

const handlers: { [Name in CallName]: Handler<Name> } = {
  next: [short, (to, runner, said, signal) => to.next(runner, readWish(said), signal), 'waits'],
  leave: [bytes.body, async (to, runner, said) => to.leaveOff(runner, readClaims(said))],
  demand: [short, (to, runner) => to.demand(runner)],
  log: [bytes.logChunk + short, (to, runner, said) => to.log(runner, readLogChunk(said))],
  tests: [bytes.testReports, (to, runner, said) => to.tests(runner, readTests(said))],
  extend: [bytes.body, (to, runner, said, signal) => to.extend(runner, readClaims(said), signal), 'waits'],
  finish: [bytes.runnerReport, (to, runner, said) => to.finish(runner, readReport(said))],
  uploaded: [64 * 1024, (to, runner, said) => to.uploaded(runner, readUploaded(said))],
  key: [short, (to, runner, said) => to.key(runner, readClaim(said))],
  registry: [short, (to, runner, said) => to.registry(runner, readClaim(said))],
  looks: [short, (to, runner, said, signal) => to.looks(runner, readRoom(said), signal), 'waits'],
  looked: [bytes.lookReports, (to, runner, said) => to.looked(runner, readLooked(said))],
  gone: [64 * 1024, (to, runner, said) => to.goneProjects(runner, readProjects(said))],
  stale: [256 * 1024, (to, runner, said) => to.staleTrees(runner, readKeptTrees(said))],
  shells: [short, (to, runner, said, signal) => to.shells(runner, readShellsAsked(said), signal), 'waits'],
  shellInput: [short, (to, runner, said, signal) => to.shellInput(runner, readShellInput(said), signal), 'waits'],
  shellOutput: [
    outputBytes,
    (to, runner, said, signal) => to.shellOutput(runner, readShellOutput(said), signal),
    'waits',
  ],
  shellEnd: [short, (to, runner, said) => to.shellEnd(runner, readShellEnd(said))],
};

const names: ReadonlySet<string> = new Set(Object.keys(handlers));

/** What is larger than any message may be ends the connection; up to here it is answered. */
export const mostMessageBytes = short + Math.max(...Object.values(handlers).map(([mostBytes]) => mostBytes));

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
  let [atWork, bytesAtWork, waiting] = [0, 0, 0];

  const send = (answer: ToRunner): void => {
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    if (socket.bufferedAmount > mostUnread) socket.terminate();
    else socket.send(encodeMessage(answer));
  };
  const answer = async ({ id, name, message }: Call): Promise<void> => {
    try {
      const given = await handlers[name][1](dispatch, runner, message, signal);
      send(Buffer.isBuffer(given) ? { id, bytes: given } : { id, answer: given });
    } catch (error) {
      if (error instanceof DrainedError) send({ id, end: true });
      if (signal.aborted || error instanceof DrainedError) return;
      const known = asAnswer(error) ?? translate(error);
      if (!known) onTrouble(error, name);
      send({ id, status: known?.status ?? 500, ...(known?.body ?? { error: { generic: [] } }) });
    }
  };
  const work = async (call: Call): Promise<void> => {
    const waits = handlers[call.name][2] === 'waits';
    if (waits && waiting >= mostWaiting) {
      send({ id: call.id, status: 403, ...new ApiError('resource_temporary_unavailable').body });
      return;
    }
    if (waits) waiting += 1;
    else [atWork, bytesAtWork] = [atWork + 1, bytesAtWork + call.size];
    await answer(call);
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
      if (data.length > handlers[name][0]) throw new ApiError('invalid_format');
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
