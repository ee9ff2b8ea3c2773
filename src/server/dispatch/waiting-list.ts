import type { Runner } from '../auth/runners.ts';
import { isUnavailable } from '../db/unavailable.ts';

export interface Waiting<T> {
  runner: Runner;
  /** Members of a line can take the same things. */
  line: string;
  /** Cheaper than an attempt. */
  isAny(): Promise<boolean>;
  /** Undefined if there was nothing, or it is no longer wanted. An error ends the waiting. */
  attempt(isWanted: () => boolean): Promise<T | undefined>;
  /** Whether it may get anything at the moment. */
  isServed(): boolean;
}

const mostAtOnce = 8;

/**
 * After a notification, the first of each line tries, and more as long as tries succeed. So one job costs one or two
 * tries, however many runners wait.
 */
export class WaitingList<T> {
  readonly #lines = new Map<string, Line<T>>();
  /** Attempts before joining a line. */
  readonly #arriving = new Set<Promise<unknown>>();
  #news = 0;

  /** Undefined if nothing came, or on abort. A running attempt is always awaited: what it takes is committed. */
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
    if (this.#news !== before) line.notify(); // it may have come during the attempt
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

  notify(): void {
    this.#news += 1;
    for (const line of this.#lines.values()) line.notify();
  }

  /** For things that were not announced. */
  async check(): Promise<void> {
    for (const line of this.#lines.values()) {
      const [first] = line.first(1);
      if (first && (await first.waiting.isAny())) line.notify();
    }
  }

  /** Rejects these waits, unless a running attempt succeeds. */
  fail(which: (waiting: Waiting<T>) => boolean, error: Error): void {
    for (const { members } of this.#lines.values())
      for (const member of members) if (which(member.waiting)) member.fail(error);
  }

  /** Resolves when no attempt runs. */
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
  /** No result is wanted any more. A running attempt still ends first. */
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

  /** Returns whether the next member may try. */
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

  /** During an attempt the end is only stored: the attempt's own result or error replaces it. */
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

  /** A member that found nothing moves to the end of the line: the next may find something. */
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
