import type { Database } from '../db/open.ts';

/**
 * The held requests for work, in the order in which they came. An announcement wakes the first of them. If that one
 * finds that there is more work, the next one is woken. So one job costs one look, however many requests wait.
 *
 * Runners that may take different jobs (because of their tags or accounts) are in different lines.
 */
export interface WaitingLines<Offer = never> {
  /**
   * To be called before the first look for work, so that no later announcement is missed. `isAny` returns whether there
   * is work for the members of this line.
   */
  join(line: string, isAny: () => Promise<boolean>): Place<Offer>;
  /**
   * Offers something to the first request that takes offers; returns whether it took it. `isSure` tells later whether
   * what was offered is really there. Until then the request waits outside the line.
   */
  offer(offered: Offer, isSure: Promise<boolean>): Promise<boolean>;
  /** Wakes the first of each line for which there is work: an announcement may have been lost. */
  check(): Promise<void>;
  close(): void;
}

export interface Place<Offer> extends Disposable {
  /**
   * Waits at most `ms` for the turn of this request, and then calls `look` once; undefined when its turn did not come.
   * `look` calls `isMore` as soon as it knows whether there is work for the next one too.
   *
   * With `take` it also takes offers. `take` returns what is to be done instead of `look` when the offer is sure;
   * undefined when it does not take the offer. If the offer comes to nothing, this returns undefined.
   */
  look<T>(patience: Patience, look: Look<T>, take?: Take<Offer, T>): Promise<T | undefined>;
}

export interface Patience {
  ms: number;
  signal: AbortSignal;
}

type Look<T> = (isMore: (more: boolean) => void) => Promise<T>;
type Take<Offer, T> = (offered: Offer) => Promise<(() => Promise<T>) | undefined>;

export function waitingLines<Offer = never>(db: Pick<Database, 'listen'>, topic: string): WaitingLines<Offer> {
  const lines = new Map<string, Line<Offer>>();
  const tellAll = (): void => {
    for (const line of lines.values()) line.tell();
  };
  const hear = (heard: string): void => {
    if (heard === topic) tellAll();
  };
  const stop = db.listen(hear, tellAll);
  return {
    join(name, isAny) {
      const line = lines.get(name) ?? new Line<Offer>(isAny);
      lines.set(name, line);
      line.members += 1;
      return {
        look: (patience, look, take) => line.look(patience, look, take),
        [Symbol.dispose]() {
          line.members -= 1;
          if (line.members === 0) lines.delete(name);
        },
      };
    },
    async offer(offered, isSure) {
      for (const line of lines.values()) if (await line.offer(offered, isSure)) return true;
      return false;
    },
    async check() {
      for (const line of lines.values()) if (line.isWaiting && (await line.isAny())) line.tell();
    },
    close: stop,
  };
}

/** A request that waits. */
interface Waiting<Offer> {
  /** Ends the waiting: it is its turn, or it leaves the line, or what it took is there. */
  end(how: 'turn' | 'left' | (() => Promise<unknown>)): void;
  take: Take<Offer, unknown> | undefined;
  /** Whether it was to leave while it was outside the line. */
  isLate: boolean;
}

class Line<Offer> {
  readonly isAny: () => Promise<boolean>;
  members = 0;
  /** First come first. */
  #waiting = new Set<Waiting<Offer>>();
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

  async look<T>({ ms, signal }: Patience, look: Look<T>, take?: Take<Offer, T>): Promise<T | undefined> {
    const how = await this.#turn(ms, signal, take);
    if (how === 'left') return undefined;
    if (how !== 'turn') return (await how()) as T;
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

  async offer(offered: Offer, isSure: Promise<boolean>): Promise<boolean> {
    const first = [...this.#waiting].find(({ take }) => take !== undefined);
    if (!first?.take) return false;
    this.#waiting.delete(first);
    let taken: Awaited<ReturnType<Take<Offer, unknown>>>;
    try {
      taken = await first.take(offered);
    } finally {
      if (taken === undefined) this.#putBack(first);
    }
    if (taken === undefined) return false;
    const goOn = taken;
    void isSure.then((sure) => first.end(sure ? goOn : 'left'));
    return true;
  }

  /** Left when the time is over, or the request was ended. */
  async #turn(
    ms: number,
    signal: AbortSignal,
    take: Take<Offer, unknown> | undefined,
  ): Promise<Parameters<Waiting<Offer>['end']>[0]> {
    if (signal.aborted) return 'left';
    const { promise, resolve: end } = Promise.withResolvers<Parameters<Waiting<Offer>['end']>[0]>();
    const waiting: Waiting<Offer> = { end, take, isLate: false };
    const leave = (): void => {
      if (this.#waiting.delete(waiting)) end('left');
      else waiting.isLate = true;
    };
    const timer = setTimeout(leave, ms);
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.add(waiting);
    this.#wakeNext();
    const how = await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
    return how;
  }

  /** It stands where it stood: before all others. */
  #putBack(first: Waiting<Offer>): void {
    if (first.isLate) return first.end('left');
    this.#waiting = new Set([first, ...this.#waiting]);
    return this.#wakeNext();
  }

  #wakeNext(): void {
    if (!this.#isNews || this.#isLooking) return;
    const [first] = this.#waiting;
    if (!first) return; // the next request that comes looks
    this.#waiting.delete(first);
    this.#isNews = false;
    this.#isLooking = true;
    first.end('turn');
  }
}
