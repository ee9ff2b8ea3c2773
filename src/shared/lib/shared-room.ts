/**
 * Limits the memory for unfinished input of all senders and of each name. If a share is full, its slowest senders are
 * ended. So idle senders lose their bytes, and one that crowds out others must send faster than they do.
 */
export interface RoomLimits {
  /** In bytes, for all senders. */
  room: number;
  /** In bytes, per name. */
  share: number | ((name: string) => number);
  /** Younger senders are not ended, because their speed is unknown. */
  graceMs: number;
}

/** The sender was among the slowest, or there is no room although none is slow. */
export type Crowding = 'slow' | 'full';

export interface HeldBytes {
  /** Counts what has arrived, and ends senders if it is too much. This sender may be one of them. */
  add(bytes: number): void;
  release(): void;
}

export type SharedRoom = (names: readonly string[], end: (why: Crowding) => void) => HeldBytes;

interface Sender {
  readonly since: number;
  readonly end: (why: Crowding) => void;
  bytes: number;
}

interface Share {
  readonly most: number;
  taken: number;
  readonly senders: Set<Sender>;
}

export function sharedRoom({ room, share: shareOf, graceMs }: RoomLimits, now = () => performance.now()): SharedRoom {
  const all: Share = { most: room, taken: 0, senders: new Set() };
  const byName = new Map<string, Share>();

  /** Ends a little more than needed, so that it is not done for every piece. */
  const endSlowest = ({ senders, taken, most: limit }: Share): void => {
    const at = now();
    const speed = ({ bytes, since }: Sender): number => bytes / (at - since);
    const old = Array.from(senders).filter(({ since }) => at - since >= graceMs);
    let excess = taken - (limit / 8) * 7;
    for (const sender of old.toSorted((a, b) => speed(a) - speed(b))) {
      if (excess <= 0) return;
      excess -= sender.bytes;
      sender.end('slow');
    }
  };
  return (names, end) => {
    const shares = [all];
    for (const name of names) {
      const most = typeof shareOf === 'number' ? shareOf : shareOf(name);
      const share = byName.get(name) ?? { most, taken: 0, senders: new Set() };
      byName.set(name, share);
      shares.push(share);
    }
    const sender: Sender = { since: now(), end, bytes: 0 };
    for (const { senders } of shares) senders.add(sender);
    return {
      add(bytes) {
        sender.bytes += bytes;
        for (const share of shares) share.taken += bytes;
        for (const share of shares) if (isCrowded(share)) endSlowest(share);
        if (shares.some(isCrowded)) end('full');
      },
      release() {
        for (const share of shares.splice(0)) {
          share.taken -= sender.bytes;
          share.senders.delete(sender);
        }
        for (const name of names) if (byName.get(name)?.senders.size === 0) byName.delete(name);
      },
    };
  };
}

const isCrowded = ({ most, taken }: Share): boolean => taken > most;
