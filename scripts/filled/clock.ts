/** A clock that the script moves: it runs on from there. */
const real = Date;
let ahead = -Infinity;

class Shifted extends real {
  constructor(...of: [] | [number | string | Date]) {
    super(of.length === 0 ? Shifted.now() : of[0]);
  }

  static override now(): number {
    return Math.floor(real.now() + (ahead === -Infinity ? 0 : ahead));
  }
}

export function shiftClock(): void {
  globalThis.Date = Shifted as DateConstructor;
}

/** It never goes back. */
export function setClock(ms: number): void {
  ahead = Math.max(ahead, ms - real.now());
}
