import { closeSync, openSync, readSync, writeSync } from 'node:fs';

/** Undefined parts cannot be measured on this machine. */
export interface GroupUsage {
  cpuMs?: number | undefined;
  /** Includes files that the kernel cached for the group. */
  memoryPeak?: number | undefined;
}

export interface GroupMeter {
  /** Since the group was made. */
  used(): GroupUsage;
  /** Since the last call. The first one only begins. */
  lap(): GroupUsage;
}

interface Counters {
  cpuMs: () => number | undefined;
  /** The highest use of memory since the last `restart`, or else since the group was made. */
  peak: () => number | undefined;
  /** Whether `peak` begins again from the current use. */
  restart: () => boolean;
}

export function groupMeter({ cpuMs, peak, restart }: Counters): GroupMeter {
  let highest: number | undefined;
  let begun: { cpu: number | undefined; peak: number | undefined; isRestarted: boolean } | undefined;
  const look = (): number | undefined => {
    const seen = peak();
    if (seen !== undefined) highest = Math.max(highest ?? 0, seen);
    return seen;
  };
  return {
    used() {
      look();
      return { cpuMs: cpuMs(), memoryPeak: highest };
    },
    lap() {
      const before = begun;
      const [cpu, now] = [cpuMs(), look()];
      begun = { cpu, peak: now, isRestarted: restart() };
      if (!before) return {};
      // Without a restart, only a new peak is known to be of this lap.
      const isOwn = before.isRestarted || (now ?? 0) > (before.peak ?? 0);
      return {
        cpuMs: cpu === undefined || before.cpu === undefined ? undefined : cpu - before.cpu,
        memoryPeak: isOwn ? now : undefined,
      };
    },
  };
}

/** `memory.peak` of version 2. A write makes the peak of this descriptor begin again, from Linux 6.12 on. */
export function peakFile(path: string): Pick<Counters, 'peak' | 'restart'> & { close: () => void } {
  let fd: number | undefined;
  let canOpen = true;
  const opened = (): number | undefined => {
    if (fd !== undefined || !canOpen) return fd;
    for (const flags of ['r+', 'r'])
      try {
        return (fd = openSync(path, flags));
      } catch {
        // older kernels have no such file, or one that is only read
      }
    canOpen = false;
    return undefined;
  };
  const buffer = Buffer.alloc(32);
  return {
    peak() {
      const file = opened();
      return file === undefined ? undefined : Number(buffer.toString('latin1', 0, readSync(file, buffer, 0, 32, 0)));
    },
    restart() {
      const file = opened();
      if (file === undefined) return false;
      try {
        return writeSync(file, 'reset') > 0;
      } catch {
        return false;
      }
    },
    close() {
      if (fd !== undefined) closeSync(fd);
      [fd, canOpen] = [undefined, false];
    },
  };
}
