import { mkdir } from 'node:fs/promises';
import { keepReserve, reserveOf, type DiskReserve } from '../shared/lib/disk-reserve.ts';
import { lastingName } from '../shared/lib/lasting-name.ts';
import type { TlsTrust } from '../shared/lib/tls-trust.ts';
import type { Link } from '../shared/protocol/index.ts';
import { readEnvironmentFile } from '../shared/domain/environment-file.ts';
import { openCacheStore } from './cache-store.ts';
import { openCheckouts } from './checkouts.ts';
import { openMirrors } from './git/mirrors.ts';
import { openKeptBuilds } from './kept-builds.ts';
import { openImages } from './images/images.ts';
import { foldersOf, sweepLeftovers } from './leftovers.ts';
import { openMachineInputs } from './machine-inputs.ts';
import { openOutbox } from './outbox.ts';
import { unpackFiles } from './pack-files.ts';
import { openSandboxes } from './sandbox/index.ts';
import type { Network } from './sandbox/types.ts';
import { openDependencyCache } from './dependency-cache.ts';
import type { RunnerDeps } from './job-runner.ts';

export interface RunnerDepsOptions {
  folder: string;
  concurrency: number;
  sshConfig?: string | undefined;
  network: Network;
  /** Private address ranges that builds may reach, and directories of the machine that builds see. */
  buildAllow?: readonly string[];
  buildPaths?: readonly string[];
  buildEnvironment?: string | undefined;
  isolation: 'required' | 'off';
  /** The operator forbids image builds here, whatever the server allows. */
  forbidsImageBuilds?: boolean;
  link: Link;
  dependencyCacheBytes: number;
  gitAllow?: readonly string[];
  trust?: TlsTrust;
  /** Private address ranges with permitted registries, the largest image, and the limit on all unpacked images. */
  registryAllow?: readonly string[];
  imageBytes: number;
  imageCacheBytes: number;
  /** See lib/disk-reserve.ts. */
  diskReserveBytes?: number | undefined;
  /** False for a short-lived runner, which ends before a shell could use the retained files. */
  keepsBuilds?: boolean;
  /** The server of a remote runner, for builds that call its API. */
  server?: RunnerDeps['server'];
  fetchTimeoutMs: number;
  checkoutBytes: number;
  ownId?: number | undefined;
  whyOneId?: string | undefined;
  /** Called if jobs can no longer be isolated. The runner must end. */
  onLost?: ((error: Error) => void) | undefined;
  log: (message: string) => void;
}

/** Throws if isolation is required and the machine cannot isolate builds. */
export async function openRunnerDeps(options: RunnerDepsOptions): Promise<RunnerDeps> {
  const { folder, network, isolation, log } = options;
  const folders = foldersOf(folder);
  await sweepLeftovers(folder, log);
  const disk = keepReserve({ folders: [folder], bytes: options.diskReserveBytes });
  const link = heldBack(options.link, disk);
  const own = {
    isolation,
    prepare: options.concurrency,
    onLost: options.onLost,
    ownId: options.ownId,
    whyOneId: options.whyOneId,
    // Lower than the reserve at which logs and blobs stop, so that one build's long log does not end another build.
    diskReserveBytes: (await reserveOf(folder, options.diskReserveBytes)) * 0.75,
  };
  const sandboxes = await openSandboxes({
    ...own,
    stateDir: folders.sandboxes,
    network,
    allow: options.buildAllow ?? [],
    paths: options.buildPaths ?? [],
    log,
  });
  // git processes untrusted data, so it gets no network. ssh stays outside its sandbox.
  const forGit = (message: string): void => log(`git: ${message}`);
  const gitSandboxes = await openSandboxes({
    ...own,
    stateDir: folders.gitSandboxes,
    network: 'none',
    etc: 'bare',
    log: forGit,
  });
  const mirrors = await openMirrors({
    dir: folders.git,
    sandboxes: gitSandboxes,
    isolation,
    sshConfig: options.sshConfig,
    timeoutMs: options.fetchTimeoutMs,
    checkoutBytes: options.checkoutBytes,
    allowedAddresses: options.buildAllow ?? [],
    gitAllow: options.gitAllow ?? [],
    authorities: options.trust?.authorities(),
    disk,
    log,
  });
  const checkouts = await openCheckouts(folders.checkouts, mirrors, log);
  const { scratch } = folders;
  await mkdir(scratch, { recursive: true, mode: 0o711 });
  const dependencyCache = await openDependencyCache({
    folder: folders.software,
    link,
    sandboxes,
    mostBytes: options.dependencyCacheBytes,
    log,
  });
  const images = await openImages({
    folder: folders.images,
    sockets: folders.imageSockets,
    link: options.link,
    sandboxes,
    toolSandboxes: gitSandboxes,
    allow: options.registryAllow ?? [],
    trust: options.trust,
    imageBytes: options.imageBytes,
    mostBytes: options.imageCacheBytes,
    timeoutMs: options.fetchTimeoutMs,
    disk,
    log,
  });
  const caches = await openCacheStore({ folder: folders.caches, link, sandboxes, disk, log });
  const trees = await openCacheStore({ folder: folders.files, link, sandboxes, disk, log, unpack: unpackFiles });
  const serviceData = {
    ...(await openCacheStore({ folder: folders.serviceData, link, sandboxes, disk, log })),
    key: await lastingName(folders.serviceDataKey),
    deaf: new Set<string>(),
  };
  const outbox = await openOutbox({ folder: folders.outbox, disk, log });
  const kept = sandboxes.hasLayers
    ? await openKeptBuilds({ folder: folders.kept, caches, trees, disk, log })
    : undefined;
  return {
    mirrors,
    checkouts,
    sandboxes,
    dependencyCache,
    images,
    caches,
    trees,
    serviceData,
    outbox,
    kept,
    isSoonGone: !options.keepsBuilds,
    forbidsImageBuilds: options.forbidsImageBuilds ?? false,
    link,
    scratch,
    operatorVariables: () =>
      options.buildEnvironment === undefined ? {} : readEnvironmentFile(options.buildEnvironment),
    machine: openMachineInputs({
      network,
      buildAllow: options.buildAllow ?? [],
      buildPaths: options.buildPaths ?? [],
    }),
    disk,
    log,
    async close() {
      await sandboxes.close();
      await gitSandboxes.close();
      await mirrors.close();
    },
  };
}

/** Downloads from the server go to the disk, and continue only while the disk has room. */
function heldBack(link: Link, disk: DiskReserve): RunnerDeps['link'] {
  async function* whileThereIsRoom(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      await disk.take(piece.length);
      yield piece;
    }
  }
  return {
    async read(digest, offset, signal) {
      const content = await link.read(digest, offset, signal);
      return content && whileThereIsRoom(content);
    },
    store: (claim, content, signal) => link.store(claim, content, signal),
    storeFiles: (claim, content, signal) => link.storeFiles(claim, content, signal),
    access: (message, signal) => link.access(message, signal),
    tests: (batch, signal) => link.tests(batch, signal),
    summary: (written, signal) => link.summary(written, signal),
    stepPoint: (point, signal) => link.stepPoint(point, signal),
  };
}
