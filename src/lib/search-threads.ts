import { Worker } from 'node:worker_threads';

/** A piece of a log, whole lines of it, that is searched in one go. */
export interface SearchTask {
  expression: string;
  bytes: Uint8Array<ArrayBuffer>;
  limit: number;
  /** Then it stops behind the line where it is. */
  milliseconds: number;
}

export interface SearchAnswer {
  matches: { line: number; start: number; text: string; ranges: number[] }[];
  /** How many lines were searched, where it was not all. */
  searched: number | undefined;
}

/**
 * The thread in which logs are searched. Accounts take turns, whoever searches more than others: each is served one piece
 * at a time, and a piece takes a fraction of a second. It is started with the first search and ends when nobody has
 * searched for a while.
 */
export interface SearchThreads {
  /** Rejects with a BusySearchError when the account, or all together, have too much under way. */
  search(account: bigint, task: SearchTask): Promise<SearchAnswer>;
  close(): Promise<void>;
}

/** So many pieces of one account, and of all, wait at most. */
const mostOfOne = 8;
const mostOfAll = 64;
/** A piece that takes longer is given up, and the thread with it: it ends by itself after a fraction of that. */
const taskTimeoutMs = 10_000;
const idleMs = 30_000;

export class BusySearchError extends Error {
  override name = 'BusySearchError';
}

interface Waiting {
  task: SearchTask;
  answered: PromiseWithResolvers<SearchAnswer>;
}

/** `program` is what runs in the thread: it answers each task with one message. */
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
      if (line.length > 0) lines.set(account, line); // behind the others
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
      lines.clear(); // or the next one would start another thread
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
