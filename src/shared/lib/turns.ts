import { orAborted } from './or-aborted.ts';

/** Limits what runs at once. Names take turns, so that a name with much to do does not delay the others. */
export interface Turns {
  /** Resolves when it is the name's turn. The returned function ends the turn. */
  take(name: bigint, signal: AbortSignal): Promise<() => void>;
}

export function createTurns(atOnce: number): Turns {
  /** By name, in the order in which they are served. */
  const lines = new Map<bigint, (() => void)[]>();
  let taken = 0;
  const leave = (name: bigint, begin: () => void): boolean => {
    const line = lines.get(name) ?? [];
    const at = line.indexOf(begin);
    if (at >= 0) line.splice(at, 1);
    if (line.length === 0) lines.delete(name);
    return at >= 0;
  };
  const release = (): void => {
    const [next] = lines;
    if (!next) {
      taken -= 1;
      return;
    }
    const [name, line] = next;
    const begin = line.shift();
    lines.delete(name);
    if (line.length > 0) lines.set(name, line); // behind the other names
    begin?.();
  };
  return {
    async take(name, signal) {
      signal.throwIfAborted();
      if (taken < atOnce) {
        taken += 1;
        return release;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      lines.set(name, [...(lines.get(name) ?? []), resolve]);
      try {
        await orAborted(promise, signal);
      } catch (error) {
        if (!leave(name, resolve)) release(); // its turn came at this moment
        throw error;
      }
      return release;
    },
  };
}
