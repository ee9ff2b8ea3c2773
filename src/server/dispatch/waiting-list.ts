import type { Runner } from '../auth/runners.ts';
import { isUnavailable } from '../db/unavailable.ts';

/** A runner that waits for something that others want as well. */
export interface Waiting<T> {
  runner: Runner;
  /** All who wait in the same line could take the same things. */
  line: string;
  /** Whether there may be something for this line; cheaper than an attempt. */
  isAny(): Promise<boolean>;
  /** Undefined where there was nothing, or it is not wanted any more. An error that it throws ends the waiting. */
  attempt(isWanted: () => boolean): Promise<T | undefined>;
  /** Whether it may get anything at the moment. */
  isServed(): boolean;
}

/** How many of a line try at the same time. */
const mostAtOnce = 8;

/**
 * All who wait, in the order in which they came. After a notification the first of each line tries, and more of them as
 * long as each try finds something. So one job costs one or two tries, however many wait.
 */
export class WaitingList<T> {
  readonly #lines = new Map<string, Line<T>>();
  /** The first attempts, which are made before the caller joins a line. */
  readonly #arriving = new Set<Promise<unknown>>();
  #news = 0;

  /**
   * Waits at most `ms`; undefined when nothing came, or the signal is aborted. An attempt that has begun is always
   * awaited: what it takes is committed, so it has to reach the caller.
   */
  async wait(waiting: Waiting<T>, signal: AbortSignal, ms = Infinity): Promise<T | undefined> {
    const before = this.#news;
    const first = waiting.isServed() ? await this.#arrive(waiting, signal) : undefined;
    if (first !== undefined || signal.aborted || ms <= 0) return first;
    const line = this.#lines.get(waiting.line) ?? new Line<T>();
    this.#lines.set(waiting.line, line);
    const member = new Member(waiting);
    const leave = (): void => member.leave();
    line.members.add(member);
    signal.addEventListener('abort', leave, { once: true });
    const timer = ms === Infinity ? undefined : setTimeout(leave, ms);
    if (this.#news !== before) line.notify(); // it may have come while this one tried
    try {
      return await member.result;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      line.members.delete(member);
      if (line.members.size === 0 && this.#lines.get(waiting.line) === line) this.#lines.delete(waiting.line);
    }
  }

  async #arrive(waiting: Waiting<T>, signal: AbortSignal): Promise<T | undefined> {
    const arriving = attemptIfAny(waiting, () => !signal.aborted);
    this.#arriving.add(arriving);
    try {
      return await arriving;
    } finally {
      this.#arriving.delete(arriving);
    }
  }

  /** There may be something. */
  notify(): void {
    this.#news += 1;
    for (const line of this.#lines.values()) line.notify();
  }

  /** Checks whether there is something that was not announced. */
  async check(): Promise<void> {
    for (const line of this.#lines.values()) {
      const [first] = line.first(1);
      if (first && (await first.waiting.isAny())) line.notify();
    }
  }

  /** Ends the waiting of some with an error, unless an attempt that is under way finds something. */
  fail(which: (waiting: Waiting<T>) => boolean, error: Error): void {
    for (const { members } of this.#lines.values())
      for (const member of members) if (which(member.waiting)) member.fail(error);
  }

  /** Resolves when nobody tries at the moment. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#arriving);
    for (const { trying } of this.#lines.values()) await trying;
  }
}

async function attemptIfAny<T>(waiting: Waiting<T>, isWanted: () => boolean): Promise<T | undefined> {
  return (await waiting.isAny()) ? waiting.attempt(isWanted) : undefined;
}

class Member<T> {
  readonly waiting: Waiting<T>;
  /** Nothing is wanted any more; the end itself comes after an attempt that is under way. */
  isOver = false;
  readonly #result = Promise.withResolvers<T | undefined>();
  #isTrying = false;
  #end = (): void => {};

  constructor(waiting: Waiting<T>) {
    this.waiting = waiting;
  }

  get result(): Promise<T | undefined> {
    return this.#result.promise;
  }

  leave(): void {
    this.#endWith(() => this.#result.resolve(undefined));
  }

  fail(error: unknown): void {
    this.#endWith(() => this.#result.reject(error));
  }

  /** Whether the next one may try. */
  async attempt(): Promise<boolean> {
    this.#isTrying = true;
    try {
      const value = await attemptIfAny(this.waiting, () => !this.isOver);
      if (value !== undefined) this.#endWith(() => this.#result.resolve(value));
    } catch (error) {
      // When the database is back, another try follows.
      if (!isUnavailable(error)) this.fail(error);
    }
    this.#isTrying = false;
    this.#end();
    return this.isOver;
  }

  /** What an attempt found or threw counts more than an end that came meanwhile. */
  #endWith(end: () => void): void {
    this.isOver = true;
    this.#end = end;
    if (!this.#isTrying) end();
  }
}

class Line<T> {
  readonly members = new Set<Member<T>>();
  trying: Promise<void> | undefined;
  #isNews = false;

  notify(): void {
    this.#isNews = true;
    this.trying ??= this.#try().finally(() => (this.trying = undefined));
  }

  first(many: number): Member<T>[] {
    const found: Member<T>[] = [];
    for (const member of this.members) {
      if (found.length === many) break;
      if (!member.isOver && member.waiting.isServed()) found.push(member);
    }
    return found;
  }

  /** One that found nothing goes to the end of the line: what there is may be for another. */
  async #attempt(member: Member<T>): Promise<boolean> {
    const isOver = await member.attempt();
    if (!isOver && this.members.delete(member)) this.members.add(member);
    return isOver;
  }

  async #try(): Promise<void> {
    while (this.#isNews) {
      this.#isNews = false;
      for (let many = 1, isMore = true; isMore; many = Math.min(2 * many, mostAtOnce)) {
        const some = this.first(many);
        const tried = await Promise.all(some.map((member) => this.#attempt(member)));
        isMore = some.length > 0 && tried.every(Boolean);
      }
    }
  }
}
