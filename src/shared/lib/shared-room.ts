/**
 * Memory for what senders have begun and not finished, shared by names: of all senders together, and of each name, only
 * so many bytes are held. If a share is full, the senders that are slowest are ended. A sender that only holds bytes
 * loses them, and one that keeps others out has to send more bytes in a second than they do.
 */
export interface RoomLimits {
  /** The bytes of all senders together. */
  room: number;
  /** The bytes of those with one name. */
  share: number | ((name: string) => number);
  /** Only older senders are ended to make room: before that it is not known how fast they are. */
  graceMs: number;
}

/** Why a sender is ended: it was among the slowest, or there is no room although nobody is slow. */
export type Crowding = 'slow' | 'full';

export interface HeldBytes {
  /** Counts what has arrived, and ends senders where it is too much. This sender may be one of them. */
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

  /** Ends a little more than is needed, so that it is not done for every piece. */
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
