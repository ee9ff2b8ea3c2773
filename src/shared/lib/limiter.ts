import { orAborted } from './or-aborted.ts';

/** Limits the concurrent users of each named resource. The others wait for their turn. */
export interface Limiter {
  /** Resolves when there is room. The returned function releases the slot once. */
  take(name: string, signal: AbortSignal): Promise<() => void>;
}

export function createLimiter(most: number): Limiter {
  const lines = new Map<string, { taken: number; waiting: (() => void)[] }>();
  return {
    async take(name, signal) {
      const line = lines.get(name) ?? { taken: 0, waiting: [] };
      lines.set(name, line);
      let isHeld = true;
      const release = (): void => {
        if (!isHeld) return;
        isHeld = false;
        const next = line.waiting.shift();
        if (next) next();
        else line.taken -= 1;
        if (line.taken === 0) lines.delete(name);
      };
      if (line.taken < most) {
        line.taken += 1;
        return release;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      line.waiting.push(resolve);
      try {
        await orAborted(promise, signal);
      } catch (error) {
        const at = line.waiting.indexOf(resolve);
        if (at === -1) release(); // its turn came at this moment
        else line.waiting.splice(at, 1);
        throw error;
      }
      return release;
    },
  };
}
