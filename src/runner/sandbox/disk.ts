import { statfs } from 'node:fs/promises';
import { run } from '../../lib/processes.ts';

/**
 * What bounds a build that fills the disk: before the file system is full, the run that holds most of it is ended.
 * Everybody else on that disk, the server's database among them, would otherwise fail with it. Quotas would be
 * sharper, but few file systems are mounted with them.
 *
 * While something runs, a look at the free space twice a second costs nothing; who it is, is only asked when
 * space is short.
 */
export interface DiskWatch {
  watch(run: Watched): () => void;
}

interface Watched {
  /** All that the run may write to. */
  folders: string[];
  end: () => void;
}

const EVERY_MS = 500;
const GIB = 1024 ** 3;

export async function watchDisk(folder: string, reserveBytes?: number): Promise<DiskWatch> {
  const { blocks, bsize } = await statfs(folder);
  const reserve = reserveBytes ?? Math.min(GIB, (blocks * bsize) / 20);
  const runs = new Set<Watched>();
  let timer: NodeJS.Timeout | undefined;
  let looking = false;

  const look = async (): Promise<void> => {
    const { bavail, bsize } = await statfs(folder);
    if (bavail * bsize >= reserve) return;
    const sizes = await Promise.all([...runs].map(async (entry) => ({ entry, size: await sizeOf(entry.folders) })));
    const [largest] = sizes.filter(({ entry }) => runs.has(entry)).sort((a, b) => b.size - a.size);
    // A disk that was full before the builds came is not theirs to answer for.
    if (largest && largest.size > reserve / 100) largest.entry.end();
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
      timer ??= setInterval(tick, EVERY_MS);
      return () => {
        runs.delete(entry);
        if (runs.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

async function sizeOf(folders: readonly string[]): Promise<number> {
  const { stdout } = await run('du', [
    '--summarize',
    '--total',
    '--one-file-system',
    '--block-size=1',
    '--',
    ...folders,
  ]);
  return Number.parseInt(stdout.toString().trim().split('\n').at(-1) ?? '', 10) || 0;
}
