import type { WebSocket } from 'ws';
import type { Runner } from '../auth/runners.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { mostHeld } from '../../shared/domain/bounds.ts';
import { sharedRoom, type HeldBytes, type SharedRoom } from '../../shared/lib/shared-room.ts';

/** Sockets count arriving and unread bytes themselves. */
export type Held = Exclude<keyof typeof mostHeld, 'arrivingBytes' | 'unreadBytes'>;
type Opened = 'connections' | 'transfers';
export type Amount = readonly [what: Held, amount: number];

/** An account has this many shares, because several tokens serve it. */
const tokensOfAccount = 2;
/** From all runners together. */
const mostArriving = 8 * mostHeld.arrivingBytes;
/** How long it takes to know a sender's speed. */
const graceMs = 1000;

const isAccount = (name: string): boolean => name.startsWith('account ');
const timesOf = (name: string): number => (isAccount(name) ? tokensOfAccount : 1);

/** A token, or an account that tokens are bound to. */
class Sharer {
  readonly name: string;
  readonly taken = new Map<Held, number>();
  readonly sockets = new Set<WebSocket>();
  /** Waiting callbacks, in the order of service. */
  readonly eager = new Set<() => void>();

  constructor(name: string) {
    this.name = name;
  }

  get isIdle(): boolean {
    return this.taken.size === 0;
  }

  /** An amount larger than the share fits only if nothing else is taken. */
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
 * Counted by token and account, over all connections. At the limit, a token is refused or waits. All other tokens
 * continue.
 */
export class RunnerShares {
  readonly #sharers = new Map<string, Sharer>();
  readonly #room = sharedRoom({
    room: mostArriving,
    share: (name) => timesOf(name) * mostHeld.arrivingBytes,
    graceMs,
  });

  get isIdle(): boolean {
    return this.#sharers.size === 0;
  }

  /** Throws an UnavailableError if the runner is at its limit. */
  demandRoom(runner: Runner, what: Opened): void {
    if (namesOf(runner).some((name) => this.#sharers.get(name)?.fits([what, 1]) === false))
      throw new UnavailableError(`the runner has too many ${what}`);
  }

  /** For a new connection or transfer, until disposed of. Throws like `demandRoom`. */
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

  /** Attaches the connection whose unread responses count. */
  attach(socket: WebSocket): void {
    this.#socket = socket;
    for (const { sockets } of this.#sharers) sockets.add(socket);
  }

  /** Takes all amounts, or none and returns false. They stay taken until given back, even if the connection ends. */
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

  /**
   * Calls `begin` whenever room may be free, until `whenFree` is called without it. Callers that were just served come
   * last.
   */
  whenFree(begin?: () => void): void {
    if (begin === this.#begin && !this.#isServed) return;
    this.#isServed = false;
    for (const { eager } of this.#sharers) {
      if (this.#begin) eager.delete(this.#begin);
      if (begin) eager.add(begin);
    }
    this.#begin = begin;
  }

  /** For an incomplete message. If too many bytes arrive, the slowest senders are ended. */
  arriving(end: () => void): HeldBytes {
    return this.#room(
      this.#sharers.map(({ name }) => name),
      end,
    );
  }

  /** Whether too many response bytes are unread, on all connections of the token or of an account. */
  get isUnread(): boolean {
    return this.#sharers.some(({ isUnread }) => isUnread);
  }

  [Symbol.dispose](): void {
    this.whenFree();
    for (const { sockets } of this.#sharers) if (this.#socket) sockets.delete(this.#socket);
    this.give([this.#what, 1]);
  }
}
