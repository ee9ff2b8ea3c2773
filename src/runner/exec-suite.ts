import { mkdir, realpath } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { keepReserve } from '../shared/lib/disk-reserve.ts';
import { tryLockFile } from '../shared/lib/file-lock.ts';
import { parseImageReference } from '../shared/domain/image-reference.ts';
import { openOwnFolder } from '../shared/lib/own-folder.ts';
import type { ImageOrder, Link, ServiceOrder, Software, StepOrder, StepState } from '../shared/protocol/index.ts';
import { openDependencyCache } from './dependency-cache.ts';
import { guardGit } from './guarded-git.ts';
import { imageBuild, refuseImageBuilds } from './image-builds.ts';
import { inImage, openImages, type TakenImage } from './images/images.ts';
import { openSandboxes } from './sandbox/index.ts';
import { sandboxPaths, type Ended, type Network, type Sandboxes } from './sandbox/types.ts';
import { copyTree } from './sandbox/workspace.ts';
import { maskedLog } from './masked-log.ts';
import { oneIdWords } from './one-id.ts';
import { suiteSteps } from './suite-steps.ts';
import { findable } from './search-paths.ts';
import type { LogSink } from './services/service-log.ts';
import { openSuiteServices } from './services/suite-services.ts';

export type { ServiceOrder };

/** One run of a suite on a developer's machine, in the same sandbox as builds, but without a server's order. */
export interface ExecOptions {
  /** A folder for files that can be fetched again. */
  folder: string;
  /** Stays unchanged unless `isWritten`. */
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
  buildsImages: boolean;
  /** Private ranges (CIDR) with permitted registries, for images that the developer did not choose. */
  registryAllow: readonly string[];
  services: readonly ServiceOrder[];
  read: Link['read'];
  timeoutSeconds: number;
  writeLog: (chunk: Buffer) => Promise<void>;
  log: (message: string) => void;
  signal: AbortSignal;
}

export interface EndedSuite extends Ended {
  steps: StepState[];
  launch: string | undefined;
}

const mostImageBytes = 20 * 1024 ** 3;
const day = 24 * 60 * 60;

export async function execSuite(options: ExecOptions): Promise<EndedSuite> {
  const { log } = options;
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  // The developer's paths may contain links, so they are resolved here. Nothing after this follows a link.
  const [folder, tree] = [await realpath(options.folder), await realpath(options.tree)];
  const own = await openOwnFolder(folder, { prefix: 'exec-', log });
  const run = own.path;
  try {
    const { network } = options;
    const sandboxes = await openSandboxes({ isolation: 'required', log, stateDir: join(run, 'sandboxes'), network });
    try {
      return await runIn(sandboxes, run, { ...options, folder, tree });
    } finally {
      await sandboxes.close();
    }
  } finally {
    await own.remove();
  }
}

async function runIn(sandboxes: Sandboxes, run: string, options: ExecOptions): Promise<EndedSuite> {
  const { software, prefixes, signal, writeLog, log } = options;
  if (options.buildsImages) refuseImageBuilds(sandboxes);
  const cache = await openDependencyCache({
    folder: join(run, 'software'),
    link: { read: options.read },
    sandboxes,
    mostBytes: Number.MAX_SAFE_INTEGER,
    log,
  });
  using taken = await cache.take(software, signal);
  await using images = await openImagesFor(sandboxes, run, options);
  const { reference, isChosen } = options.image;
  using image = reference === '' ? undefined : await images.take({ reference, accountId: 'exec' }, { isChosen });
  if (image && !sandboxes.hasManyUsers) await writeLog(Buffer.from(oneIdWords));
  using git = options.isWritten ? await guardGit(options.tree, sandboxPaths.workspace) : undefined;
  const masked = maskedLog({ writeLog, secrets: options.secrets });
  const suite = suiteSteps({ launches: options.launches, steps: options.steps, log: masked });
  const limits = { memoryBytes: totalmem(), processes: 16_384, timeoutMs: (options.timeoutSeconds || day) * 1000 };
  const means = { sandboxes, dependencyCache: cache, operatorVariables: () => ({}), scratch: run, log };
  await using services =
    options.services.length > 0
      ? await openSuiteServices(means, {
          orders: options.services,
          takeImage: (order, { isAsItIs }) => images.take(order, { isChosen: false, isAsItIs }),
          project: '1',
          hadSecrets: true,
          limits,
          secrets: options.secrets,
          openLog: (name) => prefixed(name, masked.print),
          print: masked.print,
          signal,
        })
      : undefined;
  services?.signal.addEventListener('abort', () => suite.fail(), { once: true });
  try {
    await suite.begin();
    const inside = image && (await inImage(image, options.image.root));
    const making = options.buildsImages ? imageBuild(inside) : undefined;
    const environment = { ...image?.configuration.environment, ...making?.environment, ...options.environment };
    const build = {
      environment: findable(environment, prefixes, taken.directoriesAt),
      isBuild: true as const,
      workspace: options.isWritten
        ? { directory: options.tree }
        : { checkout: await treeFor(sandboxes, run, options.tree) },
      mounts: [...taken.mounts, ...(git?.mounts ?? []), ...(services?.mounts ?? [])],
      ...inside,
      ...(making && { user: making.user }),
      limits,
    };
    const ended = await sandboxes.run({
      id: 'exec',
      ...suite.job,
      ...build,
      ...(making && { buildsImages: making.buildsImages, files: making.files }),
      before: services && ((around) => services.start(around, build)),
      onOver: services?.over,
      output: (chunk) => masked.push(chunk),
      interrupt: services?.signal,
      signal,
    });
    const died = services?.failure();
    if (died) throw died;
    return { ...ended, exitStatus: suite.statusOf(ended), steps: suite.conclude(ended), launch: suite.launch(ended) };
  } finally {
    await masked.flush();
  }
}

/** An overlay's files must belong to the user of runs. Files of root would have no owner inside, so they are copied. */
async function treeFor(sandboxes: Sandboxes, run: string, tree: string): Promise<string> {
  if (process.getuid?.() !== 0) return tree;
  const copy = join(run, 'tree');
  await mkdir(copy);
  await copyTree(tree, copy);
  await sandboxes.adopt(copy);
  return copy;
}

const longestLine = 64 * 1024;

/** Prints a service's lines with its name among the suite's output. */
function prefixed(name: string, print: (text: string) => Promise<void>): LogSink {
  let rest = '';
  return {
    async write(bytes) {
      const lines = (rest + bytes.toString()).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > longestLine) {
        lines.push(rest);
        rest = '';
      }
      if (lines.length > 0) await print(lines.map((line) => `${name}: ${line}\n`).join(''));
    },
  };
}

interface ExecImages extends AsyncDisposable {
  take(order: ImageOrder, how: { isChosen: boolean; isAsItIs?: boolean | undefined }): Promise<TakenImage>;
}

async function openImagesFor(sandboxes: Sandboxes, run: string, options: ExecOptions): Promise<ExecImages> {
  const { folder, log, signal, writeLog } = options;
  await using closing = new AsyncDisposableStack();
  const open = async (): Promise<Parameters<typeof openImages>[0]> => {
    const toolSandboxes = await openSandboxes({
      isolation: 'required',
      stateDir: join(run, 'tools'),
      network: 'none',
      etc: 'bare',
      log,
    });
    kept.defer(() => toolSandboxes.close());
    // Only one process at a time uses the cached images. Other processes pull their own.
    const lock = await tryLockFile(join(folder, 'images.lock'), 'exclusive');
    kept.defer(async () => lock?.release());
    return {
      folder: join(lock ? folder : run, 'images'),
      sockets: join(run, 'sockets'),
      link: { registry: async () => undefined },
      sandboxes,
      toolSandboxes,
      allow: [],
      imageBytes: mostImageBytes,
      mostBytes: mostImageBytes,
      timeoutMs: 60 * 60 * 1000,
      disk: keepReserve({ folders: [folder] }),
      log,
    };
  };
  const kept = closing.move();
  let opened: ReturnType<typeof open> | undefined;
  return {
    async take(order, { isChosen, isAsItIs }) {
      opened ??= open();
      const images = await openImages({
        ...(await opened),
        // The server's credentials stay on the server.
        link: { registry: async () => ({ host: parseImageReference(order.reference)?.host ?? '' }) },
        // A suite that another user wrote must not reach into the developer's own network.
        allow: isChosen ? ['0.0.0.0/0', '::/0'] : options.registryAllow,
      });
      return images.take(order, { id: 'exec', isAsItIs, writeLog: (text) => writeLog(Buffer.from(text)), signal });
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
