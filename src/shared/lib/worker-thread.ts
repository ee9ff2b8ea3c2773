import { pathToFileURL } from 'node:url';
import { parentPort, Worker } from 'node:worker_threads';
import { sourceFile } from './source-files.ts';

/** Accounts take turns, one task each at a time. A thread starts on demand and ends when idle. */
export interface WorkerThread<Task, Answer> {
  /** Rejects with a BusyThreadError if too many tasks wait. `moved` is transferred, not copied. */
  ask(account: bigint, task: Task, moved?: ArrayBuffer[]): Promise<Answer>;
  close(): Promise<void>;
}

export interface ThreadLimits {
  /** The default is 1. */
  threads?: number;
  /** Waiting tasks of one account, and of all. */
  mostOfOne: number;
  mostOfAll: number;
  /** A task that takes longer ends the thread. Tasks normally stop themselves much earlier. */
  timeoutMs: number;
}
const idleMs = 30_000;

export class BusyThreadError extends Error {
  override name = 'BusyThreadError';
}

interface QueuedTask<Task, Answer> {
  task: Task;
  moved: ArrayBuffer[];
  answered: PromiseWithResolvers<Answer>;
}

/** `program`, a file below src, runs in the thread and answers each task with one message. */
export function createWorkerThread<Task, Answer>(
  program: string,
  { threads = 1, mostOfOne, mostOfAll, timeoutMs }: ThreadLimits,
): WorkerThread<Task, Answer> {
  /** By account, in the order in which they are served. */
  const lines = new Map<bigint, QueuedTask<Task, Answer>[]>();
  const idle = new Map<Worker, NodeJS.Timeout>();
  const working = new Set<Worker>();
  let isClosed = false;

  const stop = async (worker: Worker): Promise<void> => {
    clearTimeout(idle.get(worker));
    idle.delete(worker);
    working.delete(worker);
    await worker.terminate();
  };

  const next = (): QueuedTask<Task, Answer> | undefined => {
    for (const [account, line] of lines) {
      const [first] = line.splice(0, 1);
      lines.delete(account);
      if (line.length > 0) lines.set(account, line); // behind the other accounts
      if (first) return first;
    }
    return undefined;
  };

  const free = (): Worker => {
    const [[worker, timer] = []] = idle;
    if (!worker) return startWorker(program);
    clearTimeout(timer);
    idle.delete(worker);
    return worker;
  };

  const serve = async (): Promise<void> => {
    while (working.size < threads) {
      const one = next();
      if (!one) return;
      const worker = free();
      working.add(worker);
      const { answered } = one;
      try {
        answered.resolve(await answerOf(worker, one, timeoutMs));
        working.delete(worker);
        idle.set(worker, setTimeout(() => void stop(worker), idleMs).unref());
      } catch (error) {
        answered.reject(isClosed ? stopped() : error);
        await stop(worker);
      }
    }
  };

  return {
    async ask(account, task, moved = []) {
      const line = lines.get(account) ?? [];
      const all = [...lines.values()].reduce((sum, { length }) => sum + length, 0);
      if (line.length >= mostOfOne || all >= mostOfAll) throw new BusyThreadError('too many tasks at once');
      const answered = Promise.withResolvers<Answer>();
      line.push({ task, moved, answered });
      lines.set(account, line);
      void serve();
      return answered.promise;
    },
    async close() {
      isClosed = true;
      const waiting = [...lines.values()].flat();
      lines.clear(); // otherwise the next task would start another thread
      for (const { answered } of waiting) answered.reject(stopped());
      await Promise.all([...idle.keys(), ...working].map(stop));
    },
  };
}

const stopped = (): Error => new BusyThreadError('the server stops');

function startWorker(program: string): Worker {
  const worker = new Worker(pathToFileURL(sourceFile(program)), {
    resourceLimits: { maxOldGenerationSizeMb: 256 },
  });
  worker.unref();
  return worker;
}

async function answerOf<Task, Answer>(
  worker: Worker,
  { task, moved }: QueuedTask<Task, Answer>,
  timeoutMs: number,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const timer = setTimeout(() => reject(new Error('a task took too long')), timeoutMs);
  const onMessage = (message: { answer: Answer } | { failure: string }): void => {
    if ('failure' in message) reject(new Error(message.failure));
    else resolve(message.answer);
  };
  const onExit = (): void => reject(new Error('the thread ended early'));
  worker.once('message', onMessage).once('error', reject).once('exit', onExit);
  try {
    worker.postMessage(task, moved);
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.off('message', onMessage).off('error', reject).off('exit', onExit);
  }
}

/** `moved` names memory of an answer that is handed over instead of copied. */
export function answerTasks<Answer>(
  answer: (task: never) => Answer | Promise<Answer>,
  moved: (answer: Answer) => ArrayBuffer[] = () => [],
): void {
  const perform = async (task: unknown): Promise<void> => {
    try {
      const given = await answer(task as never);
      parentPort?.postMessage({ answer: given }, moved(given));
    } catch (error) {
      parentPort?.postMessage({ failure: String(error) }, []);
    }
  };
  parentPort?.on('message', (task: unknown) => void perform(task));
}
