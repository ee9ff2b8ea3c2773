import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { EnvironmentFileError } from '../shared/domain/environment-file.ts';
import { removeTree, sweepTree } from '../shared/lib/remove-tree.ts';
import type { CompileOrder, Outcome } from '../shared/protocol/index.ts';
import { inspect, RefusedArchiveError, unpack } from './archives.ts';
import { CannotRunError } from './cannot-run.ts';
import { inImage } from './images/images.ts';
import { packTree } from './packages.ts';
import { quote } from '../shared/lib/shell-word.ts';
import { CannotMountError, type Ended, type Limits } from './sandbox/types.ts';
import { unlessStoreAway, unlessStoreAwayFor } from './retry.ts';
import { refusedText } from './refused-addresses.ts';
import { findable } from './search-paths.ts';
import { fetchBlob, storeBlob, TooLargeError } from './transfers.ts';
import type { JobRunner, Task, RunnerDeps } from './job-runner.ts';

/** How long a compile waits for blob storage. A rerun would cost more, but other jobs need the slot. */
const patienceMs = 5 * 60 * 1000;

/** Unpacks an archive, runs its command, and stores the files under the prefix on the server. */
export const compileDependency: JobRunner<CompileOrder> = async (deps, order, task) => {
  const folder = join(deps.scratch, task.id);
  const pathOf = (name: string): string => join(folder, name);
  try {
    await mkdir(folder, { mode: 0o711 });
    for (const name of ['archive', 'source', 'prefix', 'packed']) await mkdir(pathOf(name), { mode: 0o755 });
    return await compile(deps, order, task, pathOf);
  } catch (error) {
    if (error instanceof RefusedArchiveError) await task.writeLog(`The archive is refused: ${error.message}\n`);
    else if (error instanceof CannotRunError) await task.writeLog(`${error.message}\n`);
    else if (error instanceof TooLargeError) await task.writeLog(`\n${tooLarge(order)}\n`);
    else if (error instanceof EnvironmentFileError)
      await task.writeLog(`The variables that the operator of this runner sets cannot be read: ${error.message}\n`);
    else if (error instanceof CannotMountError) await task.writeLog(`It cannot be compiled here: ${error.message}\n`);
    else throw error;
    return { kind: 'uncompilable' };
  } finally {
    await sweepTree(folder, deps.log);
  }
};

async function compile(
  { link, sandboxes, dependencyCache, images, operatorVariables }: RunnerDeps,
  order: CompileOrder,
  { id, writeLog, signal }: Task,
  pathOf: (name: string) => string,
): Promise<Outcome> {
  const { archive, prefix, source } = order;
  const { memoryBytes, processes, timeoutSeconds } = order.limits;
  const limits: Limits = { memoryBytes, processes, timeoutMs: timeoutSeconds * 1000 };
  await fetchBlob(link, archive.digest, join(pathOf('archive'), 'source'), signal, unlessStoreAway);
  await writeLog(`Unpacking the archive (${archive.kind}, ${archive.size} bytes)\n`);
  const opening = { id, sandboxes, folder: pathOf('archive'), file: 'source', limits, signal };
  await inspect(opening, order.unpacked);
  await unpack(opening, pathOf('source'));
  await removeTree(pathOf('archive'));

  await writeLog(`Compiling for ${prefix}\n`);
  using software = await dependencyCache.take(order.software, signal);
  using image = order.image && (await images.take(order.image, { id, writeLog, signal }));
  const below = software.mounts.find(({ at }) => at === prefix)?.layers ?? [];
  const variables = { ...operatorVariables(), ...image?.configuration.environment, ...order.environment };
  const ended = await sandboxes.run({
    id,
    // The directory comes from an untrusted archive, so only the sandboxed shell enters it.
    steps: [{ name: 'command', command: `${entering(source)}\n${order.command}` }],
    environment: findable(variables, order.prefixes, software.directoriesAt),
    isBuild: true,
    ...(image && (await inImage(image))),
    workspace: { directory: pathOf('source') },
    mounts: [
      ...software.mounts.filter(({ at }) => at !== prefix),
      { at: prefix, writable: pathOf('prefix'), layers: below },
    ],
    limits,
    output: writeLog,
    signal,
  });
  const failure = failureOf(ended) ?? (await emptiness(pathOf('prefix'), prefix));
  if (failure !== undefined) {
    await writeLog(`\n${failure}\n${refusedText(ended.refused)}`);
    return { kind: 'uncompilable' };
  }
  await removeTree(pathOf('source'));
  const packed = await packTree({ id: `${id}-pack`, sandboxes, limits, signal }, pathOf('prefix'), pathOf('packed'));
  const digest = await storeBlob(link, id, packed, signal, unlessStoreAwayFor(patienceMs));
  await writeLog('\nCompiled.\n');
  return { kind: 'compiled', digest };
}

function tooLarge({ unpacked }: CompileOrder): string {
  return `Its output, packed, is larger than the limit of ${unpacked.bytes} bytes.`;
}

function entering(source: string): string {
  if (source === '') return '';
  const missing = quote(`The archive has no directory ${source}.`);
  return `cd -- ${quote(join('/build', source))} 2>/dev/null || { echo ${missing}; exit 1; }`;
}

function failureOf({ exitStatus, reason }: Ended): string | undefined {
  switch (reason) {
    case 'cancelled':
      throw new Error('the job was cancelled');
    case 'timed_out':
      return 'The command exceeded its time limit and was ended.';
    case 'out_of_memory':
      return 'The command exceeded its memory limit and was ended.';
    case 'out_of_disk':
      return 'The command filled the disk and was ended.';
    case null:
      if (exitStatus === null) throw new Error('the sandbox ended without an exit status');
      return exitStatus === 0 ? undefined : `The command failed with exit status ${exitStatus}.`;
    default:
      return reason satisfies never;
  }
}

async function emptiness(folder: string, prefix: string): Promise<string | undefined> {
  if ((await readdir(folder)).length > 0) return undefined;
  return `The command succeeded but left nothing under ${prefix}.`;
}
