import type { WebSocket } from 'ws';
import type { Runner } from '../auth/runners.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { mostHeld } from '../../shared/domain/bounds.ts';
import { sharedRoom, type HeldBytes, type SharedRoom } from '../../shared/lib/shared-room.ts';

/** What is counted. The bytes that arrive and those that are not read are counted by their sockets. */
export type Held = Exclude<keyof typeof mostHeld, 'arrivingBytes' | 'unreadBytes'>;
/** What is opened and closed again. */
type Opened = 'connections' | 'transfers';
export type Amount = readonly [what: Held, amount: number];

/** An account is served by several tokens, and all of them together have this many shares. */
const tokensOfAccount = 2;
/** What arrives from all runners together. */
const mostArriving = 8 * mostHeld.arrivingBytes;
/** How fast a sender is, is known after this time. */
const graceMs = 1000;

const isAccount = (name: string): boolean => name.startsWith('account ');
const timesOf = (name: string): number => (isAccount(name) ? tokensOfAccount : 1);

/** A token, or an account that tokens are bound to. */
class Sharer {
  readonly name: string;
  readonly taken = new Map<Held, number>();
  readonly sockets = new Set<WebSocket>();
  /** Those that wait until something becomes free, in the order in which they are served. */
  readonly eager = new Set<() => void>();

  constructor(name: string) {
    this.name = name;
  }

  get isIdle(): boolean {
    return this.taken.size === 0;
  }

  /** An amount that is larger than the share is taken alone. */
  fits([what, amount]: Amount): boolean {
    const before = this.taken.get(what) ?? 0;
    return before === 0 || before + amount <= timesOf(this.name) * mostHeld[what];
  }

  add([what, amount]: Amount): void {
    const now = (this.taken.get(what) ?? 0) + amount;
    if (now === 0) this.taken.delete(what);
    else this.taken.set(what, now);
  }

  get isUnread(): boolean {
    let unread = 0;
    for (const { bufferedAmount } of this.sockets) unread += bufferedAmount;
    return unread > timesOf(this.name) * mostHeld.unreadBytes;
  }
}

/**
 * What runners hold at this server, counted for each token and for each account that the token is bound to, whatever
 * their number of connections. A token that holds as much as it may is refused or waits, and all others go on.
 */
export class RunnerShares {
  readonly #sharers = new Map<string, Sharer>();
  readonly #room = sharedRoom({
    room: mostArriving,
    share: (name) => timesOf(name) * mostHeld.arrivingBytes,
    graceMs,
  });

  /** Whether no runner holds anything. */
  get isIdle(): boolean {
    return this.#sharers.size === 0;
  }

  /** Throws an UnavailableError if the runner has as many of these as it may. */
  demandRoom(runner: Runner, what: Opened): void {
    if (namesOf(runner).some((name) => this.#sharers.get(name)?.fits([what, 1]) === false))
      throw new UnavailableError(`the runner has too many ${what}`);
  }

  /** The share of a new connection, or of a transfer, until it is disposed of. Throws as `demandRoom` does. */
  open(runner: Runner, what: Opened): RunnerShare {
    this.demandRoom(runner, what);
    const sharers = namesOf(runner).map((name) => this.#sharers.get(name) ?? new Sharer(name));
    for (const sharer of sharers) this.#sharers.set(sharer.name, sharer);
    return new RunnerShare(sharers, what, {
      room: this.#room,
      onIdle: (sharer) => {
        if (this.#sharers.get(sharer.name) === sharer) this.#sharers.delete(sharer.name);
      },
    });
  }
}

function namesOf({ holder, accounts = [] }: Runner): string[] {
  return [holder, ...accounts.map((id) => `account ${id}`)];
}

/** What one connection has of the shares of its token and its accounts. */
export class RunnerShare implements Disposable {
  readonly #sharers: readonly Sharer[];
  readonly #what: Held;
  readonly #room: SharedRoom;
  readonly #onIdle: (sharer: Sharer) => void;
  #socket: WebSocket | undefined;
  #begin: (() => void) | undefined;
  #isServed = false;

  constructor(
    sharers: readonly Sharer[],
    what: Held,
    { room, onIdle }: { room: SharedRoom; onIdle: (sharer: Sharer) => void },
  ) {
    this.#sharers = sharers;
    this.#what = what;
    this.#room = room;
    this.#onIdle = onIdle;
    this.take([what, 1]);
  }

  /** The connection whose unread answers count. */
  attach(socket: WebSocket): void {
    this.#socket = socket;
    for (const { sockets } of this.#sharers) sockets.add(socket);
  }

  /** Takes all of it, or nothing and answers false. It is held until it is given back, also when the connection ends. */
  take(...amounts: readonly Amount[]): boolean {
    if (!this.#sharers.every((sharer) => amounts.every((amount) => sharer.fits(amount)))) return false;
    for (const sharer of this.#sharers) for (const amount of amounts) sharer.add(amount);
    this.#isServed = true;
    return true;
  }

  give(...amounts: readonly Amount[]): void {
    const eager = new Set<() => void>();
    for (const sharer of this.#sharers) {
      for (const [what, amount] of amounts) sharer.add([what, -amount]);
      for (const begin of sharer.eager) eager.add(begin);
      if (sharer.isIdle) this.#onIdle(sharer);
    }
    for (const begin of eager) begin();
  }

  /** Calls `begin` each time something may have become free, until it is called without one. Those served go last. */
  whenFree(begin?: () => void): void {
    if (begin === this.#begin && !this.#isServed) return;
    this.#isServed = false;
    for (const { eager } of this.#sharers) {
      if (this.#begin) eager.delete(this.#begin);
      if (begin) eager.add(begin);
    }
    this.#begin = begin;
  }

  /** Counts the bytes of a message that is not complete. If there are too many, the slowest senders are ended. */
  arriving(end: () => void): HeldBytes {
    return this.#room(
      this.#sharers.map(({ name }) => name),
      end,
    );
  }

  /** Whether too many bytes of answers are not read, on all connections of the token or of an account. */
  get isUnread(): boolean {
    return this.#sharers.some(({ isUnread }) => isUnread);
  }

  /** The connection or the transfer is over. */
  [Symbol.dispose](): void {
    this.whenFree();
    for (const { sockets } of this.#sharers) if (this.#socket) sockets.delete(this.#socket);
    this.give([this.#what, 1]);
  }
}
