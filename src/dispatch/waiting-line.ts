import type { Database } from '../db/open.ts';

/**
 * The held requests for work, in the order in which they came. An announcement wakes the first of them. If that one
 * finds that there is more work, the next one is woken. So one job costs one look, however many requests wait.
 *
 * Runners that may take different jobs (because of their tags or accounts) are in different lines.
 */
export interface WaitingLines {
  /**
   * To be called before the first look for work, so that no later announcement is missed. `isAny` returns whether there
   * is work for the members of this line.
   */
  join(line: string, isAny: () => Promise<boolean>): Place;
  /** Wakes the first of each line for which there is work: an announcement may have been lost. */
  check(): Promise<void>;
  close(): void;
}

export interface Place extends Disposable {
  /**
   * Waits at most `ms` for the turn of this request, and then calls `look` once; undefined when its turn did not come.
   * `look` calls `isMore` as soon as it knows whether there is work for the next one too.
   */
  look<T>(
    patience: { ms: number; signal: AbortSignal },
    look: (isMore: (more: boolean) => void) => Promise<T>,
  ): Promise<T | undefined>;
}

export function waitingLines(db: Pick<Database, 'listen' | 'listenEarly'>, topic: string): WaitingLines {
  const lines = new Map<string, Line>();
  const tellAll = (): void => {
    for (const line of lines.values()) line.tell();
  };
  const hear = (heard: string): void => {
    if (heard === topic) tellAll();
  };
  const stops = [db.listen(hear, tellAll), db.listenEarly(hear)];
  return {
    join(name, isAny) {
      const line = lines.get(name) ?? new Line(isAny);
      lines.set(name, line);
      line.members += 1;
      return {
        look: (patience, look) => line.look(patience, look),
        [Symbol.dispose]() {
          line.members -= 1;
          if (line.members === 0) lines.delete(name);
        },
      };
    },
    async check() {
      for (const line of lines.values()) if (line.isWaiting && (await line.isAny())) line.tell();
    },
    close() {
      for (const stop of stops) stop();
    },
  };
}

class Line {
  readonly isAny: () => Promise<boolean>;
  members = 0;
  /** The functions that wake the waiting requests, first come first. */
  readonly #waiting = new Set<() => void>();
  /** Whether there may be work that no request has looked for. */
  #isNews = false;
  #isLooking = false;

  constructor(isAny: () => Promise<boolean>) {
    this.isAny = isAny;
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  tell(): void {
    this.#isNews = true;
    this.#wakeNext();
  }

  async look<T>(
    { ms, signal }: { ms: number; signal: AbortSignal },
    look: (isMore: (more: boolean) => void) => Promise<T>,
  ): Promise<T | undefined> {
    if (!(await this.#turn(ms, signal))) return undefined;
    let isOver = false;
    const end = (more: boolean): void => {
      if (isOver) return;
      isOver = true;
      this.#isLooking = false;
      this.#isNews ||= more;
      this.#wakeNext();
    };
    try {
      if (!signal.aborted) return await look(end);
      end(true); // the next one looks instead
      return undefined;
    } finally {
      end(false);
    }
  }

  /** False when the time is over, or the request was ended. */
  async #turn(ms: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const wake = (): void => resolve(true);
    const leave = (): void => void (this.#waiting.delete(wake) && resolve(false));
    const timer = setTimeout(leave, ms);
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.add(wake);
    this.#wakeNext();
    const isTurn = await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
    return isTurn;
  }

  #wakeNext(): void {
    if (!this.#isNews || this.#isLooking) return;
    const [first] = this.#waiting;
    if (!first) return; // the next request that comes looks
    this.#waiting.delete(first);
    this.#isNews = false;
    this.#isLooking = true;
    first();
  }
}
