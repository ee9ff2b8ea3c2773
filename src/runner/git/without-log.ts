import { keepTail } from '../../shared/lib/tail.ts';
import { FetchError } from './failures.ts';
import { reason, sourceOf, type Source, type SourceRequest } from './sources.ts';

export interface UnloggedRequest extends Omit<SourceRequest, 'writeLog'> {
  timeoutMs: number;
}

/** The end of the output that is reported with a failure; some advice refers to it. */
const longestOutput = 2000;
/** A host that sends more is cut off. */
const mostOutput = 1024 * 1024;

/** For queries without a log. Limits their time, and the host's other output. */
export async function withoutLog<T>(request: UnloggedRequest, work: (source: Source) => Promise<T>): Promise<T> {
  const output = keepTail(longestOutput);
  const ending = new AbortController();
  let size = 0;
  const writeLog = (text: Buffer | string): void => {
    const bytes = Buffer.from(text);
    output.add(bytes);
    size += bytes.length;
    if (size > mostOutput) ending.abort(reason(source, 'remote_failed'));
  };
  const signal = AbortSignal.any([request.signal, ending.signal]);
  const source = sourceOf({ ...request, writeLog, signal });
  const timer = setTimeout(() => ending.abort(reason(source, 'host_unreachable')), request.timeoutMs);
  try {
    return await work(source);
  } catch (error) {
    const failure: unknown = ending.signal.aborted ? ending.signal.reason : error;
    if (!(failure instanceof FetchError)) throw failure;
    const lastOutput = output.bytes().toString().trim();
    throw new FetchError(failure.kind, lastOutput === '' ? failure.message : `${lastOutput}\n${failure.message}`);
  } finally {
    clearTimeout(timer);
  }
}
