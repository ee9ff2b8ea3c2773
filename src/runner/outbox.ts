import { createHash } from 'node:crypto';
import { open, rename, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFullError, isNoSpace, type DiskReserve } from '../shared/lib/disk-reserve.ts';
import { frameHead } from '../shared/domain/file-frames.ts';
import type { SavedCache } from '../shared/protocol/index.ts';
import type { CollectedFile } from './collector.ts';
import { openMade } from './transfers.ts';
import { openTreeStore, type Making } from './tree-store.ts';

/**
 * Files of ended builds that the server could not store, because blob storage was unreachable. Each build has a tree
 * named by its claim. The tree is complete before the outcome is reported, so a restarted runner can deliver it
 * (deliver-outbox.ts). Incomplete trees of a killed runner belong to lost builds, and are removed.
 */
export interface Outbox {
  /** Creates a folder only when the first file must wait. */
  begin(claim: string, project: string): PendingFiles;
  /** The build's outcome is reported, so its files may be delivered. */
  release(claim: string): void;
  /** Parcels to deliver, oldest first. */
  ready(): Parcel[];
  /** Resolves when a parcel becomes ready or is removed. */
  changed(): Promise<void>;
  remove(parcel: Parcel): Promise<void>;
  note(isAway: boolean): void;
  projects(): string[];
  forget(project: string): Promise<void>;
}

/** The waiting files of one build. Disposal removes them, unless `complete` was called. */
export interface PendingFiles extends AsyncDisposable {
  /** Whether to skip a try: files of this build wait already, or blob storage is known to be unreachable. */
  isStuck(): boolean;
  addFile(file: CollectedFile): Promise<void>;
  addCache(packed: string): Promise<string>;
  hasCache(): boolean;
  /** Returns whether any files wait. `cache` is the report about the added cache. */
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

type ParcelFacts = Pick<Parcel, 'project' | 'since' | 'cache'>;

export interface OutboxOptions {
  folder: string;
  disk: Pick<DiskReserve, 'take'>;
  log: (message: string) => void;
}

export async function openOutbox({ folder, disk, log }: OutboxOptions): Promise<Outbox> {
  let changed = Promise.withResolvers<void>();
  let isAway = false;
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const store = await openTreeStore<ParcelFacts>({ folder, outlives: 'crashes', mode: 0o700, onGone: notify, log });
  const unreported = new Set<string>();
  const ready = (): Parcel[] =>
    store
      .all()
      .filter(({ name }) => !unreported.has(name))
      .map(({ name, path, facts }) => ({
        ...facts,
        claim: name,
        artifactsFile: join(path, 'artifacts'),
        cacheFile: join(path, 'cache'),
      }))
      .toSorted((a, b) => a.since - b.since);

  return {
    begin(claim, project) {
      let making: Making | undefined;
      let files: FrameFile | undefined;
      let hasCache = false;
      const folderOf = async (): Promise<string> => (making ??= await store.begin()).tree;
      return {
        isStuck: () => making !== undefined || (isAway && store.all().length > 0),
        async addFile(file) {
          files ??= await createFrameFile(join(await folderOf(), 'artifacts'), disk);
          await files.add(file);
        },
        async addCache(packed) {
          const cache = join(await folderOf(), 'cache');
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
          unreported.add(claim);
          await store.add(claim, making, { project, since: Date.now(), ...(cache && { cache }) });
          return true;
        },
        async [Symbol.asyncDispose]() {
          await files?.close().catch(() => {}); // the file is removed anyway
          await making?.[Symbol.asyncDispose]();
        },
      };
    },
    release(claim) {
      if (unreported.delete(claim)) notify();
    },
    ready,
    changed: () => changed.promise,
    remove: ({ claim }) => store.remove(claim),
    note: (away) => void (isAway = away),
    projects: store.projects,
    async forget(project) {
      for (const parcel of ready()) if (parcel.project === project) await store.remove(parcel.claim);
    },
  };
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
