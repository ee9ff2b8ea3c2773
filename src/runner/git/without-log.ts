import { keepTail } from '../../lib/tail.ts';
import { FetchError } from './failures.ts';
import { reason, sourceOf, type Source, type SourceRequest } from './obtain.ts';

export interface UnloggedRequest extends Omit<SourceRequest, 'say'> {
  timeoutMs: number;
}

/** This much of what was said is told with a failure; some advice refers to it. */
const longestSaid = 2000;
/** A host that says more than this has nothing to say. */
const mostSaid = 1024 * 1024;

/** Asks a repository something for which there is no log. Time is bounded, and so is what the host says beside it. */
export async function withoutLog<T>(request: UnloggedRequest, work: (source: Source) => Promise<T>): Promise<T> {
  const heard = keepTail(longestSaid);
  const ending = new AbortController();
  let size = 0;
  const say = (text: Buffer | string): void => {
    const bytes = Buffer.from(text);
    heard.add(bytes);
    size += bytes.length;
    if (size > mostSaid) ending.abort(reason(source, 'remote_failed'));
  };
  const signal = AbortSignal.any([request.signal, ending.signal]);
  const source = sourceOf({ ...request, say, signal });
  const timer = setTimeout(() => ending.abort(reason(source, 'host_unreachable')), request.timeoutMs);
  try {
    return await work(source);
  } catch (error) {
    const failure: unknown = ending.signal.aborted ? ending.signal.reason : error;
    if (!(failure instanceof FetchError)) throw failure;
    const said = heard.bytes().toString().trim();
    throw new FetchError(failure.kind, said === '' ? failure.message : `${said}\n${failure.message}`);
  } finally {
    clearTimeout(timer);
  }
}
