import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { keepReserve, type DiskReserve } from '../../src/shared/lib/disk-reserve.ts';
import type { CacheOrder, FoundCache, Link, Repository } from '../../src/shared/protocol/index.ts';
import { openCacheStore, type CacheStore } from '../../src/runner/cache-store.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import type { Mirrors } from '../../src/runner/git/mirrors.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { openSuiteCache } from '../../src/runner/suite-cache.ts';
import { longestWait } from './pauses.ts';

/** Compilers of all kinds run in these builds, on slow machines too. */
const limits = { memoryBytes: 512 * 1024 * 1024, processes: 256, timeoutMs: longestWait };

/** What the server has of caches: blobs, of which a runner can be kept waiting. */
export class Blobs implements Pick<Link, 'read' | 'store'> {
  readonly all = new Map<string, Buffer>();
  readonly read_ = [] as string[];
  onStore: () => Promise<void> = async () => {};

  async read(digest: string, offset: number): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.read_.push(digest);
    const bytes = this.all.get(digest);
    return (
      bytes &&
      (async function* pieces() {
        yield bytes.subarray(offset);
      })()
    );
  }

  async store(_: string, content: AsyncIterable<Uint8Array>): Promise<{ digest: string }> {
    const bytes = Buffer.concat(await Array.fromAsync(content));
    await this.onStore();
    const digest = createHash('sha256').update(bytes).digest('hex');
    this.all.set(digest, bytes);
    return { digest };
  }
}

export interface Built {
  /** What the command wrote, and what was said about the cache. */
  text: string;
  said: string;
  /** What it saved, if it saved anything. */
  cache: FoundCache | undefined;
  /** Why it was ended, if it was. */
  reason: string | null;
}

interface BuildChanges {
  signal?: AbortSignal;
  timeoutMs?: number;
  onOutput?: () => void;
  /** Of another commit than the usual one. */
  sha?: string;
  checkout?: string;
  source?: Repository;
}

let builds = 1;

/** A runner that does nothing but run commands with a cache. */
export class CachingRunner {
  readonly caches: CacheStore;
  readonly blobs: Blobs;
  readonly logged: string[];
  /** Knows the commits of builds that have other ones. */
  mirrors: Pick<Mirrors, 'difference'> | undefined;
  readonly #folder: string;
  readonly #sandboxes: Sandboxes;

  private constructor(folder: string, sandboxes: Sandboxes, blobs: Blobs, caches: CacheStore, logged: string[]) {
    this.#folder = folder;
    this.#sandboxes = sandboxes;
    this.blobs = blobs;
    this.caches = caches;
    this.logged = logged;
  }

  /** `folder` is the runner's own; what an earlier runner kept there is still there. */
  static async open(
    folder: string,
    sandboxes: Sandboxes,
    blobs: Blobs,
    disk: Pick<DiskReserve, 'room'> = keepReserve({ folders: [] }),
  ): Promise<CachingRunner> {
    mkdirSync(join(folder, 'checkout'), { recursive: true });
    const logged: string[] = [];
    const caches = await openCacheStore({
      folder: join(folder, 'caches'),
      link: blobs,
      sandboxes,
      disk,
      log: (line) => void logged.push(line),
    });
    return new CachingRunner(folder, sandboxes, blobs, caches, logged);
  }

  get checkout(): string {
    return join(this.#folder, 'checkout');
  }

  #services(): RunnerDeps {
    return {
      sandboxes: this.#sandboxes,
      caches: this.caches,
      mirrors: this.mirrors,
      link: this.blobs,
      log: (line: string) => void this.logged.push(line),
    } as unknown as RunnerDeps;
  }

  /** Runs a command with a cache, and saves what it leaves; without paths there is no cache. */
  async build(
    command: string,
    found: FoundCache | undefined,
    { paths = ['deps', 'a/b/cache', '~/.tool'], ...changes }: Partial<CacheOrder> & BuildChanges = {},
  ): Promise<Built> {
    const id = String(builds++);
    const said: string[] = [];
    const written: Buffer[] = [];
    const { signal = new AbortController().signal, timeoutMs = limits.timeoutMs, onOutput, ...most } = changes;
    const {
      sha = 'c'.repeat(40),
      checkout = this.checkout,
      source = { projectId: '7', repositoryUrl: '' },
      ...others
    } = most;
    const services = this.#services();
    const order: CacheOrder = { paths, ...(found && { found }), savesAs: id, mostBytes: 1024 ** 3, ...others };
    const writeLog = async (text: string): Promise<void> => void said.push(text);
    const task = { id: `build-${id}`, source, sha, checkout, isOwnCheckout: true, writeLog, signal };
    await using cache = await openSuiteCache(services, paths.length > 0 ? order : undefined, task);
    const part = (name: string): string[] => (cache?.tree === undefined ? [] : [join(cache.tree, name)]);
    const ended = await this.#sandboxes.run({
      id: task.id,
      steps: [{ name: 'command', command: `set +e; ${command}` }],
      environment: {},
      workspace: { checkout, ...(cache && { over: part('workspace') }) },
      changes: { workspace: cache?.changes },
      ...(cache && { home: part('home') }),
      limits: { ...limits, timeoutMs },
      output: (chunk) => {
        written.push(chunk);
        onOutput?.();
      },
      onLeft: (left, how) => cache?.take(left, how) ?? Promise.resolve(),
      signal,
    });
    const saved = await cache?.save();
    const text = Buffer.concat(written).toString('latin1');
    const bytes = this.blobs.all.get(saved?.digest ?? '')?.length ?? 0;
    const name = saved && saved.digest === found?.digest ? found.name : id;
    const next = saved && { id: '1', branch: 'main', sha, name, digest: saved.digest, bytes };
    return { text, said: said.join(''), cache: next, reason: ended.reason };
  }
}
