import { checkRunner, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { freeLooksOf } from '../lifecycle/poll-claims.ts';
import { DrainedError, type Order, type OrderOrLooks, type Wanted } from '../protocol/index.ts';
import * as queue from '../queue/queue.ts';
import type { HeldRequests } from './held-requests.ts';
import type { Looks } from './looks.ts';
import type { Ordering } from './ordering.ts';
import { waitingLines } from './waiting-line.ts';

/** Made once: a new error for each request would cost more than the rest of the request. */
const answered = new Error('the request is answered');

/** The requests of runners for orders, which are held until there is one. */
export interface Asking {
  next(runner: Runner, claim: string, signal: AbortSignal, holdMs?: number): Promise<Order | undefined>;
  nextOrLooks(runner: Runner, wanted: Wanted, signal: AbortSignal): Promise<OrderOrLooks>;
  /** Wakes a waiting request where there is work: the announcement of the work may have been lost. */
  check(): Promise<void>;
  close(): void;
}

export interface AskingParts {
  db: Database;
  ordering: Pick<Ordering, 'now' | 'serving'>;
  held: HeldRequests;
  looks: Pick<Looks, 'looks'>;
  holdMs: number;
}

export function createAsking({ db, ordering, held, looks, holdMs: usualMs }: AskingParts): Asking {
  const lines = waitingLines(db, queue.queueTopic);

  /** Whether a drained runner has no claim left. The repositories that it was to poll are free for others then. */
  const endsNow = async ({ holder }: Runner): Promise<boolean> => {
    if ((await queue.heldBy(db, holder)).length > 0) return false;
    await db.transaction((trx) => freeLooksOf(trx, holder));
    return true;
  };

  const next: Asking['next'] = async (runner, claim, signal, holdMs = usualMs) => {
    if (held.isQuiet(runner.holder)) {
      // An order that was given before must be given again: its answer was lost.
      if ((await queue.jobOf(db.read, claim)) !== undefined)
        return ordering.now({ runner, name: claim, mayBeGiven: true });
      await held.whileQuiet(signal);
      return undefined;
    }
    using asking = held.hold(runner, signal, claim);
    const isAny = () => queue.isWaiting(db, ...ordering.serving(runner));
    const sort = [runner.boundAs ?? 'any', runner.place ?? 'both', runner.tags ?? ''];
    using place = lines.join(sort.join(' '), isAny);
    const deadline = performance.now() + holdMs;
    const isWanted = (): boolean => !asking.isOver;
    // The claim may have its order already, given to a request whose answer was lost.
    const mayBeGiven = (await queue.jobOf(db.read, claim)) !== undefined;
    let order: Order | undefined;
    if (mayBeGiven || (await isAny())) order = await ordering.now({ runner, name: claim, mayBeGiven }, isWanted);
    while (!order && !asking.signal.aborted) {
      const patience = { ms: deadline - performance.now(), signal: asking.signal };
      if (patience.ms <= 0) break;
      const look = async (isMore: (more: boolean) => void): Promise<Order | undefined> => {
        if ((await checkRunner(db.read, runner)).isDraining) {
          asking.end('drained');
          isMore(true); // for the next runner in the line
          return undefined;
        }
        const onClaim = (): void => isMore(true);
        return ordering.now({ runner, name: claim, onClaim }, isWanted);
      };
      order = await place.look(patience, look);
    }
    if (order) return order;
    asking.throwIfRefused();
    if (asking.isDrained && (await endsNow(runner))) throw new DrainedError();
    return undefined;
  };

  return {
    next,
    async nextOrLooks(runner, { claim, room }, signal) {
      const waiting = new AbortController();
      const end = (): void => waiting.abort(answered);
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
      // The first of the two that is answered ends the other.
      const [order, taken] = await Promise.allSettled([
        next(runner, claim, waiting.signal).finally(end),
        looks.looks(runner, room, waiting.signal).finally(end),
      ]);
      // What one of them found must not be lost because the other failed.
      const answer = {
        order: order.status === 'fulfilled' ? (order.value ?? null) : null,
        looks: taken.status === 'fulfilled' ? taken.value : [],
      };
      const failed = [order, taken].find((one) => one.status === 'rejected');
      if (failed && answer.order === null && answer.looks.length === 0) throw failed.reason;
      return answer;
    },
    check: () => lines.check(),
    close: () => lines.close(),
  };
}
