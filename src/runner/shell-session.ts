import { join } from 'node:path';
import { messageOf } from '../shared/lib/error-code.ts';
import { pathExists } from '../shared/lib/path-exists.ts';
import { readUntrustedObject } from '../shared/lib/untrusted-json.ts';
import { bounded, readWindow, textOf, type Hello } from '../shared/domain/shell-frames.ts';
import type { ShellStream } from '../shared/domain/shell-stream.ts';
import type { ShellEnd, ShellOrder, SuiteOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps } from './job-runner.ts';
import { imageBuild } from './image-builds.ts';
import { inImage } from './images/images.ts';
import type { OpenedBuild } from './kept-builds.ts';
import { quote } from '../shared/lib/shell-word.ts';
import type { Terminal } from './sandbox/terminal.ts';
import { wholeRun, type Ended, type Job } from './sandbox/types.ts';
import { findable } from './search-paths.ts';
import { CannotRunError } from './cannot-run.ts';
import { unkept } from './services/service-log.ts';
import { openSuiteServices } from './services/suite-services.ts';
import { FilesGoneError, layersOf, takeLent, whoRunsOver, type Lent } from './suite-files.ts';

/** A shell runs in a new sandbox with the build's limits. Its changes to the build's files are removed with it. */

const hourMs = 60 * 60 * 1000;
const checkEveryMs = 10_000;
const mostScript = 1024 * 1024;
const noStatus = 3;

export interface ShellOptions {
  /** The shell ends after this long without input and output. */
  idleMs?: number | undefined;
}

type Input = ReturnType<ShellStream['frames']>;

export async function runShell(
  deps: RunnerDeps,
  order: ShellOrder,
  stream: ShellStream,
  { idleMs = hourMs }: ShellOptions = {},
): Promise<ShellEnd> {
  const idle = new AbortController();
  const signal = AbortSignal.any([stream.signal, idle.signal]);
  const watching = setInterval(
    () => {
      if (performance.now() - stream.activeAt > idleMs) idle.abort();
    },
    Math.min(idleMs, checkEveryMs),
  );
  const finish = async (message: string | undefined, status: number): Promise<void> => {
    if (message !== undefined) await stream.send('m', message);
    await stream.send('x', String(status));
    await stream.flush(checkEveryMs);
  };
  try {
    using kept = await deps.kept?.open(order.name, order.key);
    if (!kept) {
      await finish('The files of this build are no longer stored: the runner needed the space.', noStatus);
      return 'files_gone';
    }
    const input = stream.frames();
    const hello = await readHello(input);
    const script = hello.terminal ? undefined : await readScript(input);
    const { exitStatus, reason } = await runOver(deps, order, kept, { stream, input, hello, script, signal });
    const message = idle.signal.aborted
      ? 'The shell was idle for too long.'
      : reason === null
        ? undefined
        : why[reason];
    await finish(message, exitStatus ?? noStatus);
    if (idle.signal.aborted) return 'idle';
    return stream.signal.aborted ? 'client_gone' : 'exited';
  } catch (error) {
    if (stream.signal.aborted) return 'client_gone';
    if (error instanceof CannotRunError) {
      await finish(error.message, noStatus);
      return 'failed';
    }
    deps.log(`a shell failed: ${messageOf(error)}`);
    await finish('The shell cannot be opened: the software of the build is no longer on the runner.', noStatus);
    return 'failed';
  } finally {
    clearInterval(watching);
  }
}

const why: Record<NonNullable<Ended['reason']>, string> = {
  timed_out: 'The files of this build are no longer stored.',
  cancelled: 'The runner was stopped.',
  out_of_memory: 'The shell ran out of memory.',
  out_of_disk: 'The disk of the runner is full.',
};

async function readHello(input: Input): Promise<Hello> {
  const { value, done } = await input.next();
  if (done || value.letter !== 'h') throw new Error('a shell did not begin with its terminal');
  const { terminal } = readUntrustedObject(textOf(value.content)) as Hello;
  if (!terminal) return {};
  const { type: named } = terminal as { type: unknown };
  const type = typeof named === 'string' && /^[\w.+-]{1,64}$/.test(named) ? named : 'dumb';
  return { terminal: { type, rows: bounded(terminal.rows), columns: bounded(terminal.columns) } };
}

/** Piped input runs as one script after all of it has arrived. */
async function readScript(input: Input): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let size = 0; ;) {
    const { value, done } = await input.next();
    if (done || value.letter === 'e') return Buffer.concat(pieces).toString().replaceAll('\0', '');
    if (value.letter !== 'd') continue;
    size += value.content.length;
    if (size > mostScript) throw new Error('a script for a shell is too long');
    pieces.push(value.content);
  }
}

interface Session {
  stream: ShellStream;
  input: Input;
  hello: Hello;
  /** If set, runs instead of an interactive shell. */
  script: string | undefined;
  signal: AbortSignal;
}

async function runOver(
  deps: RunnerDeps,
  { id, source, lastsMs, withheld }: ShellOrder,
  opened: OpenedBuild,
  { stream, input, hello: { terminal }, script, signal }: Session,
): Promise<Ended> {
  const { checkouts, dependencyCache, images, sandboxes } = deps;
  const build = { ...opened, order: without(opened.order, withheld) };
  const { order, imageDigest, serviceImages = {}, serviceData = {}, files } = build;
  const { software: wanted, limits } = order;
  using held = new DisposableStack();
  const layers = await layersOf(deps, build, { held, signal });
  const { workspace, home, isWhole } = layers;
  const repository = { ...source, privateKey: async () => source.privateKey };
  const checkout = isWhole ? [] : [held.use(await checkouts.of(repository, order, () => {}, signal)).path];
  const [lowest = '', ...over] = [...checkout, ...workspace];
  // Nothing retains them for shells.
  const lent = await takeLent(deps, order, checkout[0] ?? '', { held, signal }).catch((error: unknown): Lent => {
    if (error instanceof FilesGoneError) return { mounts: [], hasOneOwner: true };
    throw error;
  });
  using software = await dependencyCache.take(wanted, signal);
  using image =
    order.image && imageDigest !== undefined ? await images.again(order.image, imageDigest, signal) : undefined;
  const inside = image && (await inImage(image, order.root));
  const making = order.imageBuilds && !deps.forbidsImageBuilds ? imageBuild(inside) : undefined;
  const variables = { ...image?.configuration.environment, ...order.environment };
  const within = { memoryBytes: limits.memoryBytes, processes: limits.processes, timeoutMs: Math.max(1, lastsMs) };
  await using services =
    order.services &&
    (await openSuiteServices(deps, {
      orders: order.services,
      takeImage: (of, { name }) => images.again(of, serviceImages[name] ?? '', signal),
      project: order.source.projectId,
      hadSecrets: true,
      again: serviceData,
      limits: within,
      secrets: [],
      openLog: () => ({ write: unkept }),
      print: async () => {},
      signal,
    }));
  const root = join(files, wholeRun.root);
  const below = (await pathExists(root)) ? [root] : []; // only runs with many users have this directory
  const job: Job = {
    id: `shell-${id}`,
    // An interactive shell continues after a line that failed.
    steps: [{ name: 'shell', command: `set +e; ${script ?? interactive(order)}` }],
    environment: {
      ...findable(variables, order.prefixes, software.directoriesAt),
      ...(terminal && { TERM: terminal.type }),
    },
    isBuild: true,
    workspace: { checkout: lowest, over },
    home,
    tmp: layers.tmp,
    mounts: [...software.mounts, ...lent.mounts, ...(services?.mounts ?? [])],
    user: whoRunsOver({ hasOneOwner: layers.hasOneOwner && lent.hasOneOwner }, sandboxes),
    ...(image && { ...inside, imageLayers: { below, above: layers.image } }),
    ...(making && { buildsImages: making.buildsImages, files: making.files, user: making.user }),
    limits: within,
    output: (chunk) => stream.send('d', chunk),
    ...(terminal && { terminal: { size: terminal, onOpen: (opened) => void pass(input, opened).catch(() => {}) } }),
    signal: services ? AbortSignal.any([signal, services.signal]) : signal,
    onOver: services?.over,
  };
  // Services are prepared as for the build, over the files that the shell begins with.
  const { environment, mounts = [] } = job;
  const began = {
    environment,
    mounts,
    home,
    workspace: { checkout: lowest, over },
    ...inside,
    limits: within,
  };
  if (services) job.before = (around) => services.start(around, began);
  // The whole script has arrived. Reading on only confirms it to its sender.
  if (!terminal) void pass(input).catch(() => {});
  return await sandboxes.run(job);
}

/** Removes variables from a build's order, and also services' variables with the same contents. */
function without(order: SuiteOrder, names: readonly string[]): SuiteOrder {
  const { environment, services } = order;
  const contents = new Set(names.map((name) => environment[name]));
  const kept = Object.entries(environment).filter(([name]) => !names.includes(name));
  return {
    ...order,
    environment: Object.fromEntries(kept),
    ...(services && {
      services: services.map((service) => ({
        ...service,
        environment: Object.fromEntries(
          Object.entries(service.environment).map(([name, content]) => [name, contents.has(content) ? '' : content]),
        ),
      })),
    }),
  };
}

async function pass(input: Input, terminal?: Pick<Terminal, 'type' | 'resize'>): Promise<void> {
  for await (const { letter, content } of input) {
    const size = letter === 'w' ? readWindow(content) : undefined;
    if (size) terminal?.resize(size);
    if (letter === 'd') await terminal?.type(content);
  }
}

/** First reruns the launch commands of the build's dependencies, because their processes have ended. */
function interactive({ launches }: SuiteOrder): string {
  return [
    ...launches.map(
      ({ name, command }) =>
        `/bin/sh -e -c ${quote(command)} </dev/null || echo ${quote(`The launch command of the dependency ${name} failed.`)}`,
    ),
    'if command -v bash >/dev/null 2>&1; then exec bash -i; fi',
    'exec /bin/sh -i',
  ].join('\n');
}
