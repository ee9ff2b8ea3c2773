import { WebSocket } from 'ws';
import type { Runner } from '../auth/runners.ts';
import { LeaseLapsedError } from '../db/node-lease.ts';
import { BlobsAwayError, isUnavailable } from '../db/unavailable.ts';
import { ApiError } from '../../shared/errors.ts';
import {
  blobsAwayField,
  callNames,
  calls,
  decodeMessage,
  DrainedError,
  encodeMessage,
  shortMessage,
  type Answer,
  type CallName,
  type Message,
  type ToRunner,
} from '../../shared/protocol/index.ts';
import { readId, readName, readCall } from './read-message.ts';
import type { Amount, RunnerShare } from './runner-shares.ts';

/** A waiting call ends with the signal. */
export type CallHandlers = {
  [Name in CallName]: (typeof calls)[Name] extends { waits: true }
    ? (runner: Runner, message: Message<Name>, signal: AbortSignal) => Promise<Answer<Name>>
    : (runner: Runner, message: Message<Name>) => Promise<Answer<Name>>;
};

const limits: Record<CallName, { message: unknown; mostBytes?: number; waits?: true }> = calls;
const mostBytesOf = (name: CallName): number => limits[name].mostBytes ?? shortMessage;

/** A larger message ends the connection. Every smaller one gets a response, even if it is an error. */
export const mostMessageBytes = shortMessage + Math.max(...callNames.map(mostBytesOf));

/** A runner that leaves this many bytes of responses unread is disconnected. */
const mostUnread = 16 * 1024 * 1024;

export interface CallParts {
  handlers: CallHandlers;
  /** Undefined for errors without a matching API error. */
  translate: (error: unknown) => ApiError | undefined;
  /** For failures that are not the runner's fault. */
  onTrouble: (error: unknown, name: string) => void;
}

interface Call {
  id: number;
  name: CallName;
  message: Record<string, unknown>;
  size: number;
}

/** The call's part of its runner's share. */
function amountsOf({ name, size }: Call): readonly Amount[] {
  if (!limits[name].waits) return [['calls', 1], ['callBytes', size]]; // oxfmt-ignore
  return [[name === 'next' ? 'wishes' : 'waitingCalls', 1], ['waitingBytes', size]]; // oxfmt-ignore
}

/** Serves until the signal. If calls arrive too fast, the socket is not read, so that they do not fill the memory. */
export function serveCalls(
  socket: WebSocket,
  runner: Runner,
  { signal, share }: { signal: AbortSignal; share: RunnerShare },
  parts: CallParts,
): void {
  const { handlers, translate, onTrouble } = parts;
  const unanswered: Call[] = [];

  const send = (answer: ToRunner): void => {
    if (signal.aborted || socket.readyState !== WebSocket.OPEN) return;
    if (socket.bufferedAmount > mostUnread || share.isUnread) socket.terminate();
    else socket.send(encodeMessage(answer));
  };
  const refuse = (id: number): void =>
    send({ id, status: 503, ...new ApiError('resource_temporary_unavailable').body });
  const answer = async ({ id, name, message }: Call): Promise<void> => {
    try {
      const given = await handlers[name](runner, readCall(name, message) as never, signal);
      send(Buffer.isBuffer(given) ? { id, bytes: given } : { id, answer: given });
    } catch (error) {
      if (error instanceof DrainedError) send({ id, end: true });
      if (signal.aborted || error instanceof DrainedError) return;
      const known = asAnswer(error) ?? translate(error);
      if (!known) onTrouble(error, name);
      send({ id, status: known?.status ?? 500, ...(known?.body ?? { error: { generic: [] } }) });
    }
  };
  const work = async (call: Call, amounts: readonly Amount[]): Promise<void> => {
    await answer(call);
    share.give(...amounts, ['queuedBytes', call.size]);
    begin();
  };
  /** Whether the call has begun or was refused. A waiting call is refused if too many wait. */
  const hasBegun = (call: Call): boolean => {
    const amounts = amountsOf(call);
    if (share.take(...amounts)) {
      void work(call, amounts);
      return true;
    }
    if (!limits[call.name].waits) return false;
    share.give(['queuedBytes', call.size]);
    refuse(call.id);
    return true;
  };
  const begin = (): void => {
    for (let [call] = unanswered; call && !signal.aborted; [call] = unanswered) {
      unanswered.shift();
      if (hasBegun(call)) continue;
      unanswered.unshift(call);
      break;
    }
    share.whenFree(unanswered.length > 0 ? begin : undefined);
    if (unanswered.length > 0) socket.pause();
    else if (socket.isPaused) socket.resume();
  };
  const take = (data: Buffer, isBinary: boolean): void => {
    const message = decodeMessage(data, isBinary);
    const id = readId(message.id, 'id');
    try {
      const name = readName(message.call, 'call');
      if (data.length > mostBytesOf(name)) throw new ApiError('invalid_format');
      if (share.take(['queuedBytes', data.length])) unanswered.push({ id, name, message, size: data.length });
      else refuse(id);
    } catch (error) {
      send({ id, status: 403, ...(error as ApiError).body });
    }
  };
  signal.addEventListener('abort', () => {
    for (const { size } of unanswered.splice(0)) share.give(['queuedBytes', size]);
  });
  socket.on('message', (data: Buffer, isBinary) => {
    if (signal.aborted) return;
    try {
      take(data, isBinary);
      begin();
    } catch {
      socket.close(1007); // not a call, so it gets no response
    }
  });
}

/** Statuses differ from the API's: to a runner, 4xx means that repeating the call is useless. */
export function asAnswer(error: unknown): Pick<ApiError, 'status' | 'body'> | undefined {
  if (error instanceof ApiError) return error;
  if (!isUnavailable(error) && !(error instanceof LeaseLapsedError)) return undefined;
  const field = error instanceof BlobsAwayError ? blobsAwayField : undefined;
  return { status: 503, body: new ApiError('resource_temporary_unavailable', field).body };
}
