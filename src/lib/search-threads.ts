import { Worker } from 'node:worker_threads';

/** A piece of a log, made of whole lines, that is searched in one go. */
export interface SearchTask {
  expression: string;
  bytes: Uint8Array<ArrayBuffer>;
  limit: number;
  /** After this time the search stops behind the current line. */
  milliseconds: number;
}

export interface SearchAnswer {
  matches: { line: number; start: number; text: string; ranges: number[] }[];
  /** How many lines were searched; undefined for all. */
  searched: number | undefined;
}

/**
 * The thread that searches logs. Accounts take turns, however much one of them searches: each is served one piece at a
 * time, and a piece takes a fraction of a second. The thread starts with the first search and ends after a while
 * without one.
 */
export interface SearchThreads {
  /** Rejects with a BusySearchError when the account, or all accounts together, have too many searches waiting. */
  search(account: bigint, task: SearchTask): Promise<SearchAnswer>;
  close(): Promise<void>;
}

/** At most this many pieces wait, of one account and of all. */
const mostOfOne = 8;
const mostOfAll = 64;
/**
 * A piece that takes longer is given up, and the thread is ended: a piece stops by itself after a fraction of that
 * time.
 */
const taskTimeoutMs = 10_000;
const idleMs = 30_000;

export class BusySearchError extends Error {
  override name = 'BusySearchError';
}

interface Waiting {
  task: SearchTask;
  answered: PromiseWithResolvers<SearchAnswer>;
}

/** `program` runs in the thread and answers each task with one message. */
export function createSearchThreads(program: URL): SearchThreads {
  /** By account, in the order in which they are served. */
  const lines = new Map<bigint, Waiting[]>();
  let worker: Worker | undefined;
  let isWorking = false;
  let idle: NodeJS.Timeout | undefined;

  const stop = async (): Promise<void> => {
    const ending = worker;
    worker = undefined;
    await ending?.terminate();
  };

  const next = (): Waiting | undefined => {
    for (const [account, line] of lines) {
      const [first] = line.splice(0, 1);
      lines.delete(account);
      if (line.length > 0) lines.set(account, line); // behind the other accounts
      if (first) return first;
    }
    return undefined;
  };

  const serve = async (): Promise<void> => {
    if (isWorking) return;
    isWorking = true;
    clearTimeout(idle);
    for (let one = next(); one; one = next()) {
      worker ??= startWorker(program);
      const { task, answered } = one;
      try {
        answered.resolve(await ask(worker, task));
      } catch (error) {
        answered.reject(error);
        await stop();
      }
    }
    isWorking = false;
    idle = setTimeout(() => void stop(), idleMs).unref();
  };

  return {
    async search(account, task) {
      const line = lines.get(account) ?? [];
      const all = [...lines.values()].reduce((sum, { length }) => sum + length, 0);
      if (line.length >= mostOfOne || all >= mostOfAll) throw new BusySearchError('too many searches at once');
      const answered = Promise.withResolvers<SearchAnswer>();
      line.push({ task, answered });
      lines.set(account, line);
      void serve();
      return answered.promise;
    },
    async close() {
      const waiting = [...lines.values()].flat();
      lines.clear(); // otherwise the next piece would start another thread
      for (const { answered } of waiting) answered.reject(new BusySearchError('the server stops'));
      clearTimeout(idle);
      await stop();
    },
  };
}

function startWorker(program: URL): Worker {
  const worker = new Worker(program, {
    resourceLimits: { maxOldGenerationSizeMb: 256 },
  });
  worker.unref();
  return worker;
}

async function ask(worker: Worker, task: SearchTask): Promise<SearchAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<SearchAnswer>();
  const timer = setTimeout(() => reject(new Error('a search took too long')), taskTimeoutMs);
  const onMessage = (answer: SearchAnswer | { trouble: string }): void => {
    if ('trouble' in answer) reject(new Error(answer.trouble));
    else resolve(answer);
  };
  const onExit = (): void => reject(new Error('the search ended early'));
  worker.once('message', onMessage).once('error', reject).once('exit', onExit);
  try {
    worker.postMessage(task, [task.bytes.buffer]);
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.off('message', onMessage).off('error', reject).off('exit', onExit);
  }
}
