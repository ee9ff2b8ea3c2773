import type { Machine } from './machine.ts';
import { openSlot, type Slot } from './slot.ts';
import type { SandboxOptions } from './types.ts';

/**
 * The slots, each with one run at a time. As many exist as there ever were runs at once; the caller's concurrency
 * is what bounds that. A run that fails for our reasons leaves its slot in doubt, so the slot goes with it.
 */
export interface Pool {
  use<T>(work: (slot: Slot) => Promise<T>): Promise<T>;
  prepare(count: number): Promise<void>;
  close(): Promise<void>;
}

export function openPool(machine: Machine, log: SandboxOptions['log']): Pool {
  const idle: Slot[] = [];
  const numbers = new Set<number>();
  const chores = new Set<Promise<void>>();
  const numberOf = new Map<Slot, number>();

  const make = async (): Promise<Slot> => {
    let number = 0;
    while (numbers.has(number)) number++;
    numbers.add(number);
    try {
      const slot = await openSlot(machine, number);
      numberOf.set(slot, number);
      return slot;
    } catch (error) {
      numbers.delete(number);
      throw error;
    }
  };
  const discard = async (slot: Slot): Promise<void> => {
    // A slot that cannot be taken down keeps its number, so that nobody else gets its folder and group.
    try {
      await slot.close();
      numbers.delete(numberOf.get(slot) ?? -1);
    } catch (error) {
      log(`a sandbox could not be taken down: ${String(error)}`);
    }
  };
  const chore = (work: Promise<void>): void => {
    const done = work.finally(() => chores.delete(done));
    chores.add(done);
  };
  /** Ready for the next run at once; the next bubblewrap is started meanwhile, and if that fails, the run that needs it will say so. */
  const release = (slot: Slot): void => {
    idle.push(slot);
    chore(slot.prepare().catch(() => {}));
  };
  return {
    use: async (work) => {
      const slot = idle.pop() ?? (await make());
      try {
        const result = await work(slot);
        release(slot);
        return result;
      } catch (error) {
        chore(discard(slot));
        throw error;
      }
    },
    prepare: async (count) => {
      const missing = Array.from({ length: Math.max(0, count - numbers.size) });
      for (const slot of await Promise.all(missing.map(make))) release(slot);
    },
    close: async () => {
      await Promise.all(chores);
      await Promise.all(idle.splice(0).map((slot) => slot.close()));
    },
  };
}
