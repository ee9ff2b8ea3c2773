import { oneIdWords } from './one-id.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import { EnvironmentFileError } from '../shared/domain/environment-file.ts';
import { prefetch } from '../shared/lib/prefetch.ts';
import { keepTail } from '../shared/lib/tail.ts';
import type { Access, Link, Outcome, SuiteOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import { imageBuild, refuseImageBuilds, secretsIn } from './image-builds.ts';
import { CannotRunError } from './cannot-run.ts';
import { inImage } from './images/images.ts';
import { CannotMountError, TimedOutError, type Ended, type RunFiles } from './sandbox/types.ts';
import { keepArtifacts } from './keep-artifacts.ts';
import { collectReports } from './reports/collect-reports.ts';
import { untilAnswered } from './retry.ts';
import { refusedText } from './refused-addresses.ts';
import { findable } from './search-paths.ts';
import { hideIn, maskedLog } from './masked-log.ts';
import { unkept } from './services/service-log.ts';
import { openSuiteServices } from './services/suite-services.ts';
import { openSuiteCache } from './suite-cache.ts';
import { FilesGoneError, overCache, takeFiles, whoRunsOver } from './suite-files.ts';
import { suiteSteps } from './suite-steps.ts';
import { takeOwn } from './taken-files.ts';
import type { JobRunner, RunnerServices, Task } from './job-runner.ts';
import type { BuildFacts } from './kept-builds.ts';

/** Registry passwords are stored on no disk, in whatever form. */
const withoutPasswords = { registries: [] };
const mostTail = 64 * 1024;

/** Runs in a new sandbox, over the commit's shared work tree or the files of another suite's build. */
export const runSuite: JobRunner<SuiteOrder> = async (
  services,
  order,
  { id, writeLog, signal, steps, logLines, onSteps, openLog, onServices, onKept, onWaiting, onOutput },
) => {
  const began = performance.now();
  const { checkouts, sandboxes, dependencyCache, images, link } = services;
  const secrets = [...order.secrets, ...(order.imageBuilds ? secretsIn(order.imageBuilds) : [])];
  const log = maskedLog({ writeLog, secrets, lines: logLines });
  const { print } = log;
  // git's output belongs to the log of the fetch. For a repeated fetch, it is shown only on failure.
  const tail = keepTail(mostTail);
  try {
    if (order.imageBuilds) refuseImageBuilds(sandboxes, services.forbidsImageBuilds);
    const access = (): Promise<Access> => accessFor(link, id, signal);
    const source = {
      ...order.source,
      privateKey: async () => (await access()).privateKey,
      credential: async () => (await access()).credential,
    };
    // The registry is queried while the workspace is prepared.
    let aboutImage = '';
    const { image: wanted } = order;
    await using coming =
      wanted &&
      prefetch(
        (ending) => images.take(wanted, { id, writeLog: (text) => void (aboutImage += text), signal: ending }),
        signal,
      );
    steps.begin('checkout');
    using held = new DisposableStack();
    const files = await takeFiles(services, order, { held, signal });
    const keepOutput = (text: string | Buffer): void => tail.add(Buffer.from(text));
    const checkout = files.isWhole ? undefined : held.use(await checkouts.of(source, order, keepOutput, signal));
    if (order.software.length > 0) steps.begin('software');
    using software = await dependencyCache.take(order.software, signal);
    // Not earlier: if a dependency cannot be fetched, the build begins again and would print this twice.
    for (const miss of checkout?.misses ?? []) await print(`${miss}\n`);
    if (order.files) await print(`This begins with the files of ${order.files.suite}.\n`);
    if (wanted) steps.begin('image');
    const image = await coming?.result;
    if (image) await print(aboutImage + (sandboxes.hasManyUsers ? '' : oneIdWords));
    steps.end();
    await using waiting = services.outbox.begin(id, order.source.projectId);
    await using cache = await openSuiteCache(services, order.cache, {
      id,
      source: order.source,
      sha: order.sha,
      checkout: checkout?.path ?? files.workspace[0] ?? '',
      isOwnCheckout: !order.files,
      writeLog: print,
      waiting,
      signal,
    });
    const { workspace, home } = overCache(files, cache?.tree);
    const [lowest = '', ...over] = [...(checkout ? [checkout.path] : []), ...workspace];
    const tops = { workspace: files.workspace.at(-1), home: files.home.at(-1) };
    const { memoryBytes, processes, timeoutSeconds } = order.limits;
    const inside = image && (await inImage(image, order.root));
    const making = order.imageBuilds && imageBuild(inside, order.imageBuilds);
    const who = making ? making.user : (inside?.user ?? whoRunsOver(files, sandboxes));
    const taking = files.hasOneOwner || !sandboxes.hasLayers || (who?.uid === 0 && who.gid === 0) ? undefined : who;
    await using owning = taking && (await services.trees.begin());
    const packing = { id: `${id}-owners`, sandboxes, signal };
    const layers = { workspace: [lowest, ...over], home };
    const changes = owning && (await takeOwn(packing, { layers, user: taking, making: owning, print }));
    const variables = {
      ...services.operatorVariables(),
      ...image?.configuration.environment,
      ...making?.environment,
      ...order.environment,
    };
    const limits = { memoryBytes, processes, timeoutMs: timeoutSeconds * 1000 };
    await using beside =
      order.services &&
      (await openSuiteServices(services, {
        async takeImage(of, { name, isAsItIs }) {
          let said = '';
          const writeLog = (text: string): void => void (said += text);
          const taken = await images.take(of, { id, service: name, isAsItIs, writeLog, signal });
          await print(`Service ${name}: ${said}`);
          return taken;
        },
        orders: order.services,
        project: order.source.projectId,
        // Files of another suite may contain its secrets.
        hadSecrets: secrets.length > 0 || order.files !== undefined,
        limits,
        secrets,
        openLog: openLog ?? (() => ({ write: unkept })),
        print,
        onStates: onServices,
        began,
        signal,
      }));
    await log.flush();
    beside?.signal.addEventListener('abort', () => suite.fail(), { once: true });
    const suite = suiteSteps({
      launches: order.launches,
      steps: order.steps,
      log: beside ? { ...log, hide: (more) => hideIn([log, beside], more) } : log,
      onSpan: (name) => (name === undefined ? steps.end() : steps.begin(name)),
      ...(onSteps && { onChange: onSteps }),
      began,
    });
    const begin = async (): Promise<void> => {
      await suite.begin();
      onOutput?.('from');
    };
    if (!beside) await begin();
    const build = {
      environment: findable(variables, order.prefixes, software.directoriesAt),
      isBuild: true as const,
      home,
      mounts: [...software.mounts, ...(beside?.mounts ?? [])],
      ...inside,
      user: who,
      limits,
    };
    const workspaceLayers = { checkout: lowest, over };
    const { found } = order.cache ?? {};
    const filling = {
      parts: { image: image?.digest, user: build.user, software: order.software, prefixes: order.prefixes },
      checkout: checkout?.path,
      over: { misses: checkout?.misses, files: order.files, cache: cache?.tree && [found?.name, found?.digest] },
    };
    const ended = await sandboxes.run({
      id,
      ...suite.job,
      ...build,
      ...(making && { buildsImages: making.buildsImages, files: making.files }),
      workspace: workspaceLayers,
      changes: changes ?? { workspace: cache?.changes },
      ...(order.files && { like: tops }),
      before:
        beside &&
        (async (around) => {
          await beside.start(around, { ...build, workspace: workspaceLayers, filling });
          await begin();
        }),
      onOver: beside?.over,
      output: (chunk) => log.push(chunk),
      onLeft: async (left, ended) => {
        const how = { ...ended, exitStatus: suite.statusOf(ended) };
        // The mask may have held back the last bytes. If a launch command failed, its reason follows.
        await log.flush();
        onSteps?.(suite.conclude(how));
        if (suite.launch(how) === undefined) onOutput?.('to');
        if (order.reports && how.reason !== 'cancelled' && how.reason !== 'out_of_disk') {
          steps.begin('reports');
          await collectReports(left, {
            globs: order.reports,
            secrets: log.secrets,
            link,
            claim: id,
            tell: print,
            signal,
          });
          steps.end();
        }
        if (order.artifacts && how.reason !== 'cancelled') {
          steps.begin('artifacts');
          if (how.reason === 'out_of_disk') await print('\nNo artifacts are kept: the disk has to be freed at once.\n');
          else await keepArtifacts(services, left, order.artifacts, { claim: id, waiting, print: print, signal });
          steps.end();
        }
        await cache?.take(left, how, suite.launch(how) === undefined);
        await print(refusedText(how.refused));
        const began = cache?.tree === undefined ? undefined : order.cache?.found;
        const environment = { ...variables, ...suite.added() };
        // Last, because this moves the files away.
        const facts = {
          order: { ...order, environment, ...(order.imageBuilds && { imageBuilds: withoutPasswords }) },
          imageDigest: image?.digest,
          serviceImages: beside?.imageDigests,
          serviceData: beside?.data,
          cache: began,
          hasOneOwner: who?.uid !== 0 || !sandboxes.hasManyUsers,
        };
        await keepFiles(services, left, how, facts, { print, onKept });
      },
      interrupt: beside?.signal,
      signal,
    });
    const died = beside?.failure();
    if (died && ended.reason !== 'cancelled') {
      if (await waiting.complete()) onWaiting?.();
      throw died;
    }
    const launch = suite.launch(ended);
    if (launch === undefined || ended.reason === 'cancelled' || ended.reason === 'timed_out') {
      const outcome = outcomeOf({ ...ended, exitStatus: suite.statusOf(ended) });
      const saved = await cache?.save();
      const isLate = waiting.hasCache();
      if (await waiting.complete(isLate ? saved : undefined)) onWaiting?.();
      return saved && !isLate && outcome.kind === 'exited' ? { ...outcome, cache: saved } : outcome;
    }
    await print(failureOf(launch, ended));
    if (await waiting.complete()) onWaiting?.();
    return { kind: 'launch_failed' };
  } catch (error) {
    if (error instanceof FetchError) {
      await log.push(tail.bytes());
      return { kind: 'unfetchable', reason: error.kind };
    }
    if (error instanceof CannotRunError) {
      await log.newLine();
      await print(`${error.message}\n`);
      return { kind: 'unrunnable', reason: error.reason };
    }
    if (error instanceof TimedOutError) {
      await print(`${error.message}\n`);
      return { kind: 'timed_out' };
    }
    if (error instanceof FilesGoneError) return { kind: 'files_gone' };
    if (error instanceof EnvironmentFileError) {
      await print(`The variables that the operator of this runner sets for builds cannot be read: ${error.message}\n`);
      return { kind: 'unrunnable', reason: 'environment_unreadable' };
    }
    if (!(error instanceof CannotMountError)) throw error;
    await print(`The suite cannot run here: ${error.message}\n`);
    return { kind: 'unrunnable', reason: 'not_isolated' };
  } finally {
    await log.flush();
  }
};

/** A run that was ended from outside did not fail, and files on a full disk must be removed. */
function hasFailed({ exitStatus, reason }: Ended): boolean {
  return reason === null ? exitStatus !== 0 : reason === 'timed_out' || reason === 'out_of_memory';
}

/** Keeps a failed build's files for a shell, and for other suites. An error here does not change the result. */
async function keepFiles(
  { kept, sandboxes, isSoonGone = false, log }: RunnerServices,
  left: RunFiles,
  ended: Ended,
  build: BuildFacts,
  { print, onKept }: { print: (text: string) => Promise<void>; onKept: Task['onKept'] | undefined },
): Promise<void> {
  const { keep } = build.order;
  const isFailed = hasFailed(ended);
  if (!keep || (!isFailed && (ended.reason !== null || ended.exitStatus !== 0))) return;
  const { forSuites: when, accountId } = keep;
  const hours = isFailed && !isSoonGone ? keep.hours : 0;
  const forSuites = when !== undefined && (when === 'always' || !isFailed);
  if (!forSuites && hours === 0) return;
  try {
    if (!kept || !sandboxes.hasLayers) throw new Error('this runner cannot lay directories over each other');
    const files = await kept.keep(left, build, { hours, accountId, ...(forSuites && { forSuites: when }) });
    onKept?.({ ...files, ...(isSoonGone && { isLeaving: true }) });
  } catch (error) {
    log(`the files of a build are not kept: ${messageOf(error)}`);
    if (forSuites) await print('\nThe files are not kept for other suites: the runner could not keep them.\n');
  }
}

/** Requested only if the commit is missing here, and never stored. */
async function accessFor(link: Pick<Link, 'access'>, claim: string, signal: AbortSignal): Promise<Access> {
  const access = await untilAnswered(signal, () => link.access({ claim }, signal));
  if (access === undefined) throw new Error('the claim expired');
  return access;
}

function failureOf(name: string, { exitStatus, reason }: Ended): string {
  const how = reason === null ? `failed with exit status ${exitStatus}` : `was ended: ${reason.replaceAll('_', ' ')}`;
  return `\nThe launch command of the dependency ${name} ${how}.\n`;
}

function outcomeOf({ exitStatus, reason }: Ended): Outcome {
  if (reason === 'timed_out' || reason === 'cancelled') return { kind: reason };
  if (reason === 'out_of_disk') return { kind: 'killed', reason: 'disk_full' };
  if (reason !== null) return { kind: 'killed', reason };
  return exitStatus === null
    ? { kind: 'lost', message: 'the sandbox ended without an exit status' }
    : { kind: 'exited', status: exitStatus };
}
