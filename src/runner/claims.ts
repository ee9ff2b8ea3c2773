import { setTimeout as pause } from 'node:timers/promises';
import { orAborted } from '../shared/lib/or-aborted.ts';
import type { ClaimSignal } from '../shared/protocol/index.ts';
import { cancelled, claimLost } from './perform.ts';

/** This runner's claims, each with the controller that aborts its work. */
export class Claims {
  readonly #held = new Map<string, AbortController>();
  #changed = Promise.withResolvers<void>();

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  hold(claim: string): AbortController {
    const work = new AbortController();
    this.#held.set(claim, work);
    this.#touch();
    return work;
  }

  release(claim: string): void {
    this.#held.delete(claim);
    this.#touch();
  }

  /** Extends the claims while the runner lives, and obeys the server's signals. */
  async attend(extend: (claims: string[]) => Promise<Record<string, ClaimSignal>>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { promise: changed } = this.#changed;
      if (this.isEmpty) {
        await orAborted(changed, signal).catch(() => {}); // the loop ends by the signal
        continue;
      }
      const isForOthers = this.#obey(await extend([...this.#held.keys()]));
      // The cancelled claim has not arrived yet, or belongs to another runner with the same token. Without a pause, the
      // server would repeat the signal at once.
      if (isForOthers) await Promise.race([changed, pause(1000, undefined, { signal })]);
    }
  }

  /** Returns whether a signal cancels a claim that this runner does not have. */
  #obey(signals: Record<string, ClaimSignal>): boolean {
    let isForOthers = false;
    for (const [claim, claimSignal] of Object.entries(signals)) {
      const work = this.#held.get(claim);
      work?.abort(claimSignal === 'cancel' ? cancelled : claimLost);
      isForOthers ||= !work && claimSignal === 'cancel';
    }
    return isForOthers;
  }

  #touch(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
