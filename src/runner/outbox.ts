import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFullError, isNoSpace, type DiskReserve } from '../shared/lib/disk-reserve.ts';
import { frameHead } from '../shared/domain/file-frames.ts';
import { flushFolder } from '../shared/lib/folders.ts';
import { removeTree, sweepTree } from '../shared/lib/remove-tree.ts';
import { readUntrustedObject } from '../shared/lib/untrusted-json.ts';
import type { SavedCache } from '../shared/protocol/index.ts';
import type { CollectedFile } from './collector.ts';
import { openMade } from './transfers.ts';

/**
 * Files of ended builds that the server could not store, because blob storage was unreachable. Each build has a folder
 * named by its claim. It is flushed and renamed before the outcome is reported, so a restarted runner continues with it
 * (deliver-outbox.ts). Unfinished folders of a killed runner belong to lost builds.
 */
export interface Outbox {
  /** Makes no folder before a file must wait. */
  begin(claim: string, project: string): Waiting;
  /** The build's outcome is reported, so its files may be delivered. */
  release(claim: string): void;
  /** Parcels to deliver, oldest first. */
  ready(): Parcel[];
  /** Settles when a parcel is added, or none is left. */
  changed(): Promise<void>;
  remove(parcel: Parcel): Promise<void>;
  note(isAway: boolean): void;
  projects(): string[];
  forget(project: string): Promise<void>;
}

/** Disposing of it removes it, unless it was completed. */
export interface Waiting extends AsyncDisposable {
  /** Blob storage is known to be unreachable, so it need not be tried. */
  isStuck(): boolean;
  addFile(file: CollectedFile): Promise<void>;
  addCache(packed: string): Promise<string>;
  hasCache(): boolean;
  /** Returns whether anything waits. `cache` is the report about the added cache. */
  complete(cache?: SavedCache): Promise<boolean>;
}

export interface Parcel {
  claim: string;
  project: string;
  since: number;
  cache?: SavedCache;
  artifactsFile: string;
  cacheFile: string;
}

export class NoRoomHereError extends DiskFullError {}

type About = Pick<Parcel, 'project' | 'since' | 'cache'>;

export interface OutboxOptions {
  folder: string;
  disk: Pick<DiskReserve, 'take'>;
  log: (message: string) => void;
}

const isName = (name: string): boolean => /^[\w-]{16,64}$/.test(name);

export async function openOutbox({ folder, disk, log }: OutboxOptions): Promise<Outbox> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const parcels = new Map<string, Parcel & { isReady: boolean }>();
  let changed = Promise.withResolvers<void>();
  let isAway = false;
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const parcelOf = (claim: string, about: About): Parcel => ({
    ...about,
    claim,
    artifactsFile: join(folder, claim, 'artifacts'),
    cacheFile: join(folder, claim, 'cache'),
  });
  for (const claim of await readdir(folder)) {
    const about = isName(claim) ? await aboutIn(join(folder, claim)).catch(() => undefined) : undefined;
    if (about === undefined) await sweepTree(join(folder, claim), log);
    else parcels.set(claim, { ...parcelOf(claim, about), isReady: true });
  }

  const remove = async ({ claim }: Parcel): Promise<void> => {
    if (!parcels.delete(claim)) return;
    notify();
    const leaving = join(folder, `leaving.${claim}`);
    await rename(join(folder, claim), leaving);
    await removeTree(leaving);
  };

  return {
    begin(claim, project) {
      let making: string | undefined;
      let files: FrameFile | undefined;
      let hasCache = false;
      const makeFolder = async (): Promise<string> => {
        if (making !== undefined) return making;
        making = join(folder, `making.${claim}`);
        await mkdir(making, { mode: 0o700 });
        return making;
      };
      return {
        isStuck: () => making !== undefined || (isAway && parcels.size > 0),
        async addFile(file) {
          files ??= await createFrameFile(join(await makeFolder(), 'artifacts'), disk);
          await files.add(file);
        },
        async addCache(packed) {
          const cache = join(await makeFolder(), 'cache');
          await rename(packed, cache);
          await using file = await openMade(cache);
          const hash = createHash('sha256');
          for await (const piece of file.createReadStream({ autoClose: false })) hash.update(piece as Buffer);
          await file.sync();
          hasCache = true;
          return hash.digest('hex');
        },
        hasCache: () => hasCache,
        async complete(cache) {
          if (making === undefined) return false;
          await files?.close();
          const about: About = { project, since: Date.now(), ...(cache && { cache }) };
          await writeFlushed(join(making, 'about'), JSON.stringify(about));
          await flushFolder(making);
          await rename(making, join(folder, claim));
          await flushFolder(folder);
          making = undefined;
          parcels.set(claim, { ...parcelOf(claim, about), isReady: false });
          return true;
        },
        async [Symbol.asyncDispose]() {
          await files?.close().catch(() => {}); // it is removed anyway
          if (making !== undefined) await sweepTree(making, log);
        },
      };
    },
    release(claim) {
      const parcel = parcels.get(claim);
      if (!parcel) return;
      parcel.isReady = true;
      notify();
    },
    ready: () =>
      Array.from(parcels.values())
        .filter(({ isReady }) => isReady)
        .toSorted((a, b) => a.since - b.since),
    changed: () => changed.promise,
    remove,
    note: (away) => void (isAway = away),
    projects: () => [...new Set(Array.from(parcels.values(), ({ project }) => project))],
    async forget(project) {
      for (const parcel of parcels.values()) if (parcel.isReady && parcel.project === project) await remove(parcel);
    },
  };
}

async function aboutIn(folder: string): Promise<About> {
  return readUntrustedObject(await readFile(join(folder, 'about'), 'utf8')) as unknown as About;
}

interface FrameFile {
  add(file: CollectedFile): Promise<void>;
  /** Flushes everything to the disk. */
  close(): Promise<void>;
}

async function createFrameFile(path: string, disk: Pick<DiskReserve, 'take'>): Promise<FrameFile> {
  const file = await open(path, 'wx', 0o600);
  let isOpen = true;
  let end = 0;
  const write = async (at: number, bytes: Buffer): Promise<number> => {
    await disk.take(bytes.length);
    await writeAll(file, at, bytes);
    return at + bytes.length;
  };
  return {
    async add({ path: name, size, content }) {
      try {
        let at = await write(end, frameHead('F', size, name));
        for await (const piece of content) at = await write(at, piece);
        end = at;
      } catch (error) {
        await file.truncate(end);
        throw isNoSpace(error) ? new NoRoomHereError({ cause: error }) : error;
      }
    },
    async close() {
      if (!isOpen) return;
      isOpen = false;
      try {
        await file.sync();
      } finally {
        await file.close();
      }
    },
  };
}

async function writeAll(file: FileHandle, position: number, bytes: Buffer): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

async function writeFlushed(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(text);
  await file.sync();
}
