/** The requests for work that are held at the moment. */
export interface HeldRequests {
  hold(holder: string): Held;
  /** Ends all of a holder that is known to be gone: what it had must not be given to it again. */
  end(holder: string): void;
}

interface Held extends Disposable {
  readonly isOver: boolean;
}

export function heldRequests(): HeldRequests {
  const all = new Set<{ holder: string; isOver: boolean }>();
  return {
    hold(holder) {
      const held = { holder, isOver: false };
      all.add(held);
      return Object.assign(held, { [Symbol.dispose]: () => void all.delete(held) });
    },
    end(holder) {
      for (const held of all) if (held.holder === holder) held.isOver = true;
    },
  };
}
