import { FetchError, tooSlow } from './failures.ts';
import { patientLog } from './narrator.ts';
import { sourceOf, type GitDeps, type Source, type SourceRequest } from './sources.ts';

/** In the log, a failure that the user can fix comes before the output of git, ssh and the host. */
export async function withLog<T>(
  deps: GitDeps,
  request: SourceRequest,
  work: (source: Source) => Promise<T>,
): Promise<T> {
  const { writeLog, conclude, release } = patientLog(request.writeLog);
  try {
    return await inTime(deps, request.signal, (signal) => work(sourceOf({ ...request, writeLog, signal })));
  } catch (error) {
    // A log that accepts no more output ends the job elsewhere.
    if (error instanceof FetchError) await conclude(error.message).catch(() => {});
    throw error;
  } finally {
    await release().catch(() => {});
  }
}

/** Ends the work with a FetchError if it takes longer than a fetch may. */
export async function inTime<T>(
  { timeoutMs }: Pick<GitDeps, 'timeoutMs'>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new FetchError('fetch_timed_out', tooSlow(timeoutMs))), timeoutMs);
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}
