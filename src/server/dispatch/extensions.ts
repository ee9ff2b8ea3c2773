import type { Database } from '../db/open.ts';
import { claimSeconds, holdSeconds, type ClaimSignal } from '../../shared/protocol/index.ts';
import * as leases from '../queue/leases.ts';
import type { CallHandlers } from './calls.ts';

/** One query serves all waiting calls. A holder's calls extend its claims in one transaction at a time. */
export interface Extensions {
  extend: CallHandlers['extend'];
  check(): Promise<void>;
  close(): void;
}

type Signals = Record<string, ClaimSignal>;

interface PendingCall {
  holder: string;
  claims: readonly string[];
  answer: PromiseWithResolvers<Signals>;
}

interface Line {
  wanted: Set<string>;
  calls: number;
  run: () => Promise<void>;
}

export function createExtensions(db: Database, onTrouble: (error: unknown) => void): Extensions {
  const waiting = new Set<PendingCall>();
  const lines = new Map<string, Line>();
  const look = oneBehind(async () => {
    const all = [...waiting];
    if (all.length === 0) return;
    const held = Map.groupBy(
      await leases.heldByAll(db.read, [...new Set(all.map(({ holder }) => holder))]),
      (job) => job.holder,
    );
    for (const { holder, claims, answer } of all) {
      const signals = signalsFor(claims, held.get(holder) ?? []);
      if (Object.keys(signals).length > 0) answer.resolve(signals);
    }
  });

  /** Claims of other holders are skipped, because their number has no limit. */
  const extendHeld = async (holder: string, claims: ReadonlySet<string>): Promise<void> => {
    const held = (await leases.heldByAll(db.read, [holder]))
      .map(({ claim }) => claim)
      .filter((claim) => claims.has(claim));
    if (held.length === 0) return;
    await db.transaction((trx) => leases.extend(db, trx, { holder, claims: held, seconds: claimSeconds }));
  };
  const newLine = (holder: string): Line => {
    const line: Line = {
      wanted: new Set(),
      calls: 0,
      run: oneBehind(async () => {
        const claims = line.wanted;
        line.wanted = new Set();
        await extendHeld(holder, claims);
      }),
    };
    return line;
  };
  const extended = async (holder: string, claims: readonly string[]): Promise<void> => {
    const line = lines.get(holder) ?? newLine(holder);
    lines.set(holder, line);
    line.calls += 1;
    for (const claim of claims) line.wanted.add(claim);
    try {
      await line.run();
    } finally {
      line.calls -= 1;
      if (line.calls === 0) lines.delete(holder);
    }
  };
  const stop = db.listen(
    (topic) => {
      if (topic === leases.claimsTopic) look().catch(onTrouble);
    },
    () => void look().catch(onTrouble),
  );

  return {
    async extend({ holder }, { claims }, signal) {
      if (claims.length > 0) await extended(holder, claims);
      const call: PendingCall = { holder, claims, answer: Promise.withResolvers() };
      const end = (): void => call.answer.resolve({});
      const timer = setTimeout(end, holdSeconds * 1000);
      signal.addEventListener('abort', end, { once: true });
      waiting.add(call);
      try {
        await look();
        if (signal.aborted) end();
        return await call.answer.promise;
      } finally {
        waiting.delete(call);
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
      }
    },
    check: look,
    close: stop,
  };
}

/** Runs work once at a time. Calls during a run share the run after it. */
function oneBehind(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let behind: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running = work().finally(() => (running = undefined));
    return running;
  };
  return () => {
    if (!running) return run();
    behind ??= running
      .catch(() => {}) // its callers get the error
      .then(() => {
        behind = undefined;
        return run();
      });
    return behind;
  };
}

/** `gone` for each named claim that is lost, `cancel` for each held claim whose job is cancelled. */
function signalsFor(claims: readonly string[], held: readonly leases.HeldClaim[]): Signals {
  const still = new Set(held.map(({ claim }) => claim));
  const signals: Signals = {};
  for (const claim of claims) if (!still.has(claim)) signals[claim] = 'gone';
  for (const { claim, cancelled } of held) if (cancelled) signals[claim] = 'cancel';
  return signals;
}
