import { mkdir, mkdtemp, readdir, realpath } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { keepReserve } from '../lib/disk-reserve.ts';
import { tryLockFile } from '../lib/file-lock.ts';
import { parseImageReference } from '../domain/image-reference.ts';
import { removeTree, sweepTree } from '../lib/remove-tree.ts';
import type { Link, Software, StepOrder, StepState } from '../protocol/index.ts';
import { openDependencyCache } from './dependency-cache.ts';
import { guardGit } from './guarded-git.ts';
import { inImage, openImages, type TakenImage } from './images/images.ts';
import { openSandboxes } from './sandbox/index.ts';
import { sandboxPaths, type Ended, type Network, type Sandboxes } from './sandbox/types.ts';
import { copyTree } from './sandbox/workspace.ts';
import { maskedLog } from './masked-log.ts';
import { suiteSteps } from './suite-steps.ts';
import { findable } from './search-paths.ts';

/** One run of a suite on the machine of a developer: the sandbox of builds, without a server's order. */
export interface ExecOptions {
  /** The developer's folder for files that can be fetched again. */
  folder: string;
  /** The tree that the suite runs on. It is not changed, unless `isWritten`. */
  tree: string;
  isWritten: boolean;
  network: Network;
  launches: readonly { name: string; command: string }[];
  steps: readonly StepOrder[];
  environment: Record<string, string>;
  secrets: readonly string[];
  software: readonly Software[];
  prefixes: readonly string[];
  /** Blank for the machine's own programs; `isChosen` if the developer named it. */
  image: { reference: string; isChosen: boolean; root?: boolean | null | undefined };
  /** Reads compiled software. */
  read: Link['read'];
  timeoutSeconds: number;
  writeLog: (chunk: Buffer) => Promise<void>;
  log: (message: string) => void;
  signal: AbortSignal;
}

export interface EndedSuite extends Ended {
  steps: StepState[];
  /** The launch command that failed, if one did. */
  launch: string | undefined;
}

const mostImageBytes = 20 * 1024 ** 3;
const day = 24 * 60 * 60;

export async function execSuite(options: ExecOptions): Promise<EndedSuite> {
  const { log } = options;
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  // These paths may have links of the developer. From here on no link is followed.
  const [folder, tree] = [await realpath(options.folder), await realpath(options.tree)];
  await sweepRuns(folder, log);
  const run = await mkdtemp(join(folder, 'exec-'));
  const lock = await tryLockFile(join(run, 'lock'), 'exclusive');
  try {
    const own = { isolation: 'required', log } as const;
    const sandboxes = await openSandboxes({ ...own, stateDir: join(run, 'sandboxes'), network: options.network });
    try {
      return await runIn(sandboxes, run, { ...options, folder, tree });
    } finally {
      await sandboxes.close();
    }
  } finally {
    await removeTree(run);
    await lock?.release();
  }
}

/** Removes the files of killed runs: a killed run holds no lock. */
async function sweepRuns(folder: string, log: (message: string) => void): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith('exec-')) continue;
    const lock = await tryLockFile(join(folder, name, 'lock'), 'exclusive');
    if (!lock) continue;
    await sweepTree(join(folder, name), log);
    await lock.release();
  }
}

async function runIn(sandboxes: Sandboxes, run: string, options: ExecOptions): Promise<EndedSuite> {
  const { software, prefixes, environment, signal, writeLog, log } = options;
  const cache = await openDependencyCache({
    folder: join(run, 'software'),
    link: { read: options.read },
    sandboxes,
    mostBytes: Number.MAX_SAFE_INTEGER,
    log,
  });
  using taken = await cache.take(software, signal);
  await using image = await imageOf(sandboxes, run, options);
  using git = options.isWritten ? await guardGit(options.tree, sandboxPaths.workspace) : undefined;
  const masked = maskedLog({ writeLog, secrets: options.secrets });
  const suite = suiteSteps({ launches: options.launches, steps: options.steps, log: masked });
  try {
    await suite.begin();
    const ended = await sandboxes.run({
      id: 'exec',
      ...suite.job,
      environment: findable({ ...image?.configuration.environment, ...environment }, prefixes, taken.directoriesAt),
      isBuild: true,
      workspace: options.isWritten
        ? { directory: options.tree }
        : { checkout: await treeFor(sandboxes, run, options.tree) },
      mounts: [...taken.mounts, ...(git?.mounts ?? [])],
      ...(image && inImage(image, options.image.root)),
      limits: {
        memoryBytes: totalmem(),
        processes: 16_384,
        timeoutMs: (options.timeoutSeconds || day) * 1000,
      },
      output: (chunk) => masked.push(chunk),
      signal,
    });
    return { ...ended, exitStatus: suite.statusOf(ended), steps: suite.conclude(ended), launch: suite.launch(ended) };
  } finally {
    await masked.flush();
  }
}

/**
 * An overlay is mounted over the tree itself, if its files belong to the user of runs. Files of root would belong to
 * nobody inside, so root gets a copy.
 */
async function treeFor(sandboxes: Sandboxes, run: string, tree: string): Promise<string> {
  if (process.getuid?.() !== 0) return tree;
  const copy = join(run, 'tree');
  await mkdir(copy);
  await copyTree(tree, copy);
  await sandboxes.adopt(copy);
  return copy;
}

type Held = Pick<TakenImage, 'tree' | 'configuration'> & AsyncDisposable;

async function imageOf(sandboxes: Sandboxes, run: string, options: ExecOptions): Promise<Held | undefined> {
  const { image, folder, log, signal, writeLog } = options;
  if (image.reference === '') return undefined;
  const toolSandboxes = await openSandboxes({
    isolation: 'required',
    stateDir: join(run, 'tools'),
    network: 'none',
    etc: 'bare',
    log,
  });
  // Only one run at a time uses the shared folder of images. Others pull for themselves.
  const lock = await tryLockFile(join(folder, 'images.lock'), 'exclusive');
  const close = async (): Promise<void> => {
    await toolSandboxes.close();
    await lock?.release();
  };
  try {
    const images = await openImages({
      folder: join(lock ? folder : run, 'images'),
      sockets: join(run, 'sockets'),
      // The server does not give away its credentials.
      link: { registry: async () => ({ host: parseImageReference(image.reference)?.host ?? '' }) },
      sandboxes,
      toolSandboxes,
      // An image that somebody else wrote into the suite must not come from the developer's own network.
      allow: image.isChosen ? ['0.0.0.0/0', '::/0'] : [],
      imageBytes: mostImageBytes,
      mostBytes: mostImageBytes,
      timeoutMs: 60 * 60 * 1000,
      disk: keepReserve({ folders: [folder] }),
      log,
    });
    const order = { reference: image.reference, accountId: 'exec' };
    const taken = await images.take(order, { id: 'exec', writeLog: (text) => writeLog(Buffer.from(text)), signal });
    return {
      tree: taken.tree,
      configuration: taken.configuration,
      async [Symbol.asyncDispose]() {
        taken[Symbol.dispose]();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}
