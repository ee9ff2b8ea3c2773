import type { Runner } from '../auth/runners.ts';
import { isUnavailable } from '../db/unavailable.ts';

export interface Waiter<T> {
  runner: Runner;
  /** Members of a group can take the same things. */
  group: string;
  /** Whether there may be something to take. Cheaper than an attempt. */
  isAny(): Promise<boolean>;
  /** Undefined if there was nothing, or it is no longer wanted. An error ends the waiting. */
  attempt(isWanted: () => boolean): Promise<T | undefined>;
  /** Whether it may currently get anything. */
  isServed(): boolean;
}

interface Group<T> {
  members: Set<Member<T>>;
  isNews: boolean;
  isTrying: boolean;
}

const mostAtOnce = 8;

/**
 * Waiting calls of runners. Each call tries once on arrival. After a notification, the first call of each group tries,
 * and more calls follow as long as tries succeed. So one job costs one or two tries, however many runners wait.
 */
export class WaitingList<T> {
  readonly #groups = new Map<string, Group<T>>();
  readonly #attempts = new Set<Promise<void>>();
  #news = 0;

  /** Undefined if nothing came, or on abort. A running attempt is always awaited: what it takes is committed. */
  async wait(waiting: Waiter<T>, signal: AbortSignal, ms = Infinity): Promise<T | undefined> {
    const before = this.#news;
    const member = new Member(waiting);
    const leave = (): void => member.leave();
    const first = waiting.isServed() ? this.#attempt(member, true) : undefined;
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    await first;
    if (ms <= 0) leave();
    const timer = ms === Infinity ? undefined : setTimeout(leave, ms);
    const group = this.#groups.get(waiting.group) ?? { members: new Set(), isNews: false, isTrying: false };
    this.#groups.set(waiting.group, group);
    group.members.add(member);
    if (this.#news !== before) this.#notify(group); // it may have arrived during the attempt
    try {
      return await member.result;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      group.members.delete(member);
      if (group.members.size === 0 && this.#groups.get(waiting.group) === group) this.#groups.delete(waiting.group);
    }
  }

  notify(): void {
    this.#news += 1;
    for (const group of this.#groups.values()) this.#notify(group);
  }

  /** Finds things that were not announced. */
  async check(): Promise<void> {
    for (const group of this.#groups.values()) {
      const [first] = firstOf(group, 1);
      if (first && (await first.waiting.isAny())) this.#notify(group);
    }
  }

  /** Rejects these waits, unless a running attempt succeeds. */
  fail(which: (waiting: Waiter<T>) => boolean, error: Error): void {
    for (const { members } of this.#groups.values())
      for (const member of members) if (which(member.waiting)) member.fail(error);
  }

  /** Resolves when the attempts of this moment are over. */
  async settled(): Promise<void> {
    await Promise.all(this.#attempts);
  }

  #notify(group: Group<T>): void {
    group.isNews = true;
    if (!group.isTrying) void this.#try(group);
  }

  async #try(group: Group<T>): Promise<void> {
    group.isTrying = true;
    while (group.isNews) {
      group.isNews = false;
      for (let many = 1, isMore = true; isMore; many = Math.min(2 * many, mostAtOnce)) {
        const some = firstOf(group, many);
        await Promise.all(some.map((member) => this.#attempt(member)));
        isMore = some.length > 0 && some.every(({ isOver }) => isOver);
        for (const { isOver, waiting } of some) if (!isOver) moveBack(group, waiting.runner);
      }
    }
    group.isTrying = false;
  }

  async #attempt(member: Member<T>, isFirst = false): Promise<void> {
    const attempt = member.attempt(isFirst);
    this.#attempts.add(attempt);
    await attempt;
    this.#attempts.delete(attempt);
  }
}

/** The runner found nothing. Another one may find something, such as a job that this one has tried in vain. */
function moveBack<T>({ members }: Group<T>, { holder }: Runner): void {
  const own = members.values().filter(({ waiting }) => waiting.runner.holder === holder);
  for (const member of own.toArray()) if (members.delete(member)) members.add(member);
}

function firstOf<T>({ members }: Group<T>, many: number): Member<T>[] {
  return members
    .values()
    .filter(({ isOver, waiting }) => !isOver && waiting.isServed())
    .take(many)
    .toArray();
}

class Member<T> {
  readonly waiting: Waiter<T>;
  /** The result is no longer wanted. A running attempt still ends first. */
  isOver = false;
  readonly #result = Promise.withResolvers<T | undefined>();
  #isTrying = false;
  #end = (): void => {};

  constructor(waiting: Waiter<T>) {
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

  async attempt(isFirst: boolean): Promise<void> {
    const { waiting } = this;
    this.#isTrying = true;
    try {
      const value = (await waiting.isAny()) ? await waiting.attempt(() => !this.isOver) : undefined;
      if (value !== undefined) this.#endWith(() => this.#result.resolve(value));
    } catch (error) {
      // A waiting call stays while the database is unreachable, and tries again afterwards.
      if (isFirst || !isUnavailable(error)) this.fail(error);
    }
    this.#isTrying = false;
    this.#end();
  }

  /** During an attempt the end is only stored: the attempt's own result or error replaces it. */
  #endWith(end: () => void): void {
    this.isOver = true;
    this.#end = end;
    if (!this.#isTrying) end();
  }
}
