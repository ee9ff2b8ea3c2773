import { statfs } from 'node:fs/promises';
import { run } from '../../shared/lib/processes.ts';
import { repeatedly, type Repeating } from '../../shared/lib/repeatedly.ts';

/**
 * Ends the run with the most data before the file system is full, by bytes or inodes. Otherwise everything on that disk
 * would fail, including the server's database. Quotas would be more exact, but few file systems have them enabled. Runs
 * are measured only when space is short.
 */
export interface DiskWatch {
  watch(run: Watched): () => void;
}

interface Watched {
  /** All directories that the run may write to. */
  folders: string[];
  end: () => void;
}

const everyMs = 500;
const gibibyte = 1024 ** 3;

export async function watchDisk(folder: string, reserveBytes?: number): Promise<DiskWatch> {
  const { blocks, bsize, files } = await statfs(folder);
  const reserve = { bytes: reserveBytes ?? Math.min(gibibyte, (blocks * bsize) / 20), files: files / 20 };
  const runs = new Set<Watched>();
  let measuring: Repeating | undefined;

  const measure = async (): Promise<void> => {
    const { bavail, bsize, ffree } = await statfs(folder);
    if (bavail * bsize < reserve.bytes) await endLargest('bytes');
    else if (ffree < reserve.files) await endLargest('files'); // some file systems make inodes on demand, and report 0
  };
  const endLargest = async (what: keyof typeof reserve): Promise<void> => {
    const measured = [...runs].map(async (entry) => ({ entry, size: await sizeOf(entry.folders, what) }));
    const sizes = await Promise.all(measured);
    const [largest] = sizes.filter(({ entry }) => runs.has(entry)).sort((a, b) => b.size - a.size);
    // If even the largest run has little data, the disk was full before the builds came.
    if (largest && largest.size > reserve[what] / 100) largest.entry.end();
  };
  return {
    watch: (entry) => {
      runs.add(entry);
      measuring ??= repeatedly(everyMs, measure, () => {}); // a failed measurement is no sign of a full disk
      return () => {
        runs.delete(entry);
        if (runs.size > 0) return;
        void measuring?.stop();
        measuring = undefined;
      };
    },
  };
}

async function sizeOf(folders: readonly string[], what: 'bytes' | 'files'): Promise<number> {
  const unit = what === 'bytes' ? '--block-size=1' : '--inodes';
  const { stdout } = await run('du', ['--summarize', '--total', '--one-file-system', unit, '--', ...folders]);
  return Number.parseInt(stdout.toString().trim().split('\n').at(-1) ?? '', 10) || 0;
}
