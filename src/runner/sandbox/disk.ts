import { statfs } from 'node:fs/promises';
import { run } from '../../lib/processes.ts';

/**
 * What bounds a build that fills the disk: before the file system is full, the run that holds most of it is ended.
 * Everybody else on that disk, the server's database among them, would otherwise fail with it. Quotas would be
 * sharper, but few file systems are mounted with them.
 *
 * A file system can also run out of room for files, however small they are: that is watched in the same way.
 *
 * While something runs, a look at what is free twice a second costs nothing; who it is, is only asked when that is
 * short.
 */
export interface DiskWatch {
  watch(run: Watched): () => void;
}

interface Watched {
  /** All that the run may write to. */
  folders: string[];
  end: () => void;
}

const everyMs = 500;
const gibibyte = 1024 ** 3;

export async function watchDisk(folder: string, reserveBytes?: number): Promise<DiskWatch> {
  const { blocks, bsize, files } = await statfs(folder);
  const reserve = { bytes: reserveBytes ?? Math.min(gibibyte, (blocks * bsize) / 20), files: files / 20 };
  const runs = new Set<Watched>();
  let timer: NodeJS.Timeout | undefined;
  let looking = false;

  const look = async (): Promise<void> => {
    const { bavail, bsize, ffree } = await statfs(folder);
    if (bavail * bsize < reserve.bytes) await endLargest('bytes');
    else if (ffree < reserve.files) await endLargest('files'); // some file systems make room as they go, and count 0
  };
  const endLargest = async (what: keyof typeof reserve): Promise<void> => {
    const measured = [...runs].map(async (entry) => ({ entry, size: await sizeOf(entry.folders, what) }));
    const sizes = await Promise.all(measured);
    const [largest] = sizes.filter(({ entry }) => runs.has(entry)).sort((a, b) => b.size - a.size);
    // A disk that was full before the builds came is not theirs to answer for.
    if (largest && largest.size > reserve[what] / 100) largest.entry.end();
  };
  const tick = (): void => {
    if (looking) return; // measuring a large workspace takes longer than a tick
    looking = true;
    look()
      .catch(() => {}) // a look that fails says nothing about the space
      .finally(() => (looking = false));
  };
  return {
    watch: (entry) => {
      runs.add(entry);
      timer ??= setInterval(tick, everyMs);
      return () => {
        runs.delete(entry);
        if (runs.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

async function sizeOf(folders: readonly string[], what: 'bytes' | 'files'): Promise<number> {
  const unit = what === 'bytes' ? '--block-size=1' : '--inodes';
  const { stdout } = await run('du', ['--summarize', '--total', '--one-file-system', unit, '--', ...folders]);
  return Number.parseInt(stdout.toString().trim().split('\n').at(-1) ?? '', 10) || 0;
}
