import { openApiAccess } from './api-access.ts';
import { EnvironmentFileError } from '../shared/domain/environment-file.ts';
import { keepTail } from '../shared/lib/tail.ts';
import type { Outcome, SuiteOrder } from '../shared/protocol/index.ts';
import { CannotRunError } from './cannot-run.ts';
import { FetchError } from './git/failures.ts';
import { secretsIn } from './image-builds.ts';
import type { JobRunner, RunnerDeps } from './job-runner.ts';
import { inputsHere } from './build-inputs.ts';
import { hideIn, maskedLog } from './masked-log.ts';
import { CannotMountError, TimedOutError, type Ended } from './sandbox/types.ts';
import { findable } from './search-paths.ts';
import { unkept } from './services/service-log.ts';
import { openSuiteServices } from './services/suite-services.ts';
import { FilesGoneError } from './suite-files.ts';
import { openStepPoints } from './step-points.ts';
import { standOn } from './suite-ground.ts';
import { takeLeft } from './suite-leaves.ts';
import { suiteSteps, wholeFigures } from './suite-steps.ts';

const mostTail = 64 * 1024;

/** Runs in a new sandbox, over the commit's shared work tree or the files of another suite's build. */
export const runSuite: JobRunner<SuiteOrder> = async (deps, order, task) => {
  const { writeLog, logLines, id, signal, spans } = task;
  const { onSteps, openLog, onServices, onInputs, onKept, onWaiting, onOutput, onUsage } = task;
  const began = performance.now();
  const secrets = [
    ...order.secrets,
    ...tokenSecrets(order),
    ...(order.imageBuilds ? secretsIn(order.imageBuilds) : []),
  ];
  const log = maskedLog({ writeLog, secrets, lines: logLines });
  const { print } = log;
  // The fetch's own log already has git's output. If this runner must fetch again, the output is shown only on failure.
  const tail = keepTail(mostTail);
  const keepOutput = (text: string | Buffer): void => tail.add(Buffer.from(text));
  try {
    await using ground = await standOn(deps, order, { id, signal, spans, print, keepOutput });
    const { checkout, software, image, inside, making, cache, waiting, user, home, workspace, start } = ground;
    const ofOperator = ground.operators;
    if (start) {
      secrets.push(...start.hidden);
      await log.hide(start.hidden);
    }
    const variables = {
      ...ofOperator,
      ...image?.configuration.environment,
      ...making?.environment,
      ...order.environment,
    };
    await using api = order.api && (await openApiAccess(deps, order.api));
    const { memoryBytes, processes, timeoutSeconds } = order.limits;
    const limits = { memoryBytes, processes, timeoutMs: timeoutSeconds * 1000 };
    await using services =
      order.services &&
      (await openSuiteServices(deps, {
        async takeImage(of, { name, isAsItIs }) {
          let imageLog = '';
          const writeLog = (text: string): void => void (imageLog += text);
          const taken = await deps.images.take(of, { id, service: name, isAsItIs, writeLog, signal });
          await print(`Service ${name}: ${imageLog}`);
          return taken;
        },
        orders: order.services,
        project: order.source.projectId,
        // Files of another suite may contain its secrets.
        hadSecrets: secrets.length > 0 || order.files !== undefined || ground.lent.length > 0,
        limits,
        secrets,
        openLog: openLog ?? (() => ({ write: unkept })),
        print,
        onStates: onServices,
        began,
        moreHosts: api?.hosts,
        signal,
      }));
    onInputs?.(
      inputsHere(
        deps,
        { ...order, source: ground.source, environment: Object.keys(order.environment) },
        {
          misses: checkout?.misses ?? [],
          image: image?.digest,
          serviceImages: services?.imageDigests ?? {},
          variables: ofOperator,
        },
        signal,
      ),
    );
    await log.flush();
    services?.signal.addEventListener('abort', () => suite.fail(), { once: true });
    await using points = openStepPoints(deps, order, { id, signal, basis: ground.basis });
    const suite = suiteSteps({
      launches: order.launches,
      steps: order.steps,
      log: services ? { ...log, hide: (more) => hideIn([log, services], more) } : log,
      onSpan: (name) => (name === undefined ? spans.end() : spans.begin(name)),
      ...(onSteps && { onChange: onSteps }),
      ...(points && { onEnd: points.note }),
      began,
      start,
    });
    const begin = async (): Promise<void> => {
      await suite.begin();
      onOutput?.('from');
    };
    if (!services) await begin();
    const build = {
      environment: findable(variables, order.prefixes, software.directoriesAt),
      isBuild: true as const,
      home,
      mounts: [...software.mounts, ...ground.lent, ...(services?.mounts ?? [])],
      ...inside,
      user,
      limits,
    };
    // Only the build's own steps have its credentials. They differ for each build, so data of services cannot depend on them.
    const own = {
      environment: findable(
        { ...variables, ...order.tokens, ...api?.environment, ...start?.added },
        order.prefixes,
        software.directoriesAt,
      ),
      mounts: [...build.mounts, ...(api?.mounts ?? []), ...(services ? [] : (api?.hostsFile ?? []))],
      door: api?.door,
      ...(start && { tmp: ground.tmp, ...(inside && { imageLayers: ground.imageLayers }) }),
    };
    const found = start ? start.cache : order.cache?.found;
    const filling = {
      parts: { image: image?.digest, user: build.user, software: order.software, prefixes: order.prefixes },
      checkout: checkout?.path,
      over: {
        misses: checkout?.misses,
        files: order.files,
        lent: order.lent,
        start: start?.from ?? start?.wentOn?.digest,
        cache: cache?.tree && [found?.name, found?.digest],
      },
    };
    const ended = await deps.sandboxes.run({
      id,
      ...suite.job,
      ...build,
      ...own,
      ...(making && { buildsImages: making.buildsImages, files: making.files }),
      workspace,
      changes: ground.changes,
      ...((order.files || start) && { like: ground.tops }),
      isStaged: keepsSteps(deps, order) || points !== undefined,
      before:
        services &&
        (async (around) => {
          await services.start(around, { ...build, workspace, filling });
          await begin();
        }),
      onOver: () => {
        points?.end();
        services?.over();
      },
      output: (chunk) => log.push(chunk),
      onLeft: async (left, ended) => {
        const how = { ...ended, exitStatus: suite.statusOf(ended) };
        await points?.[Symbol.asyncDispose](); // its files are moved away
        // The mask may have held back the last bytes. They must precede the reason of a failed launch command.
        await log.flush();
        onSteps?.(suite.conclude(how));
        const isLaunched = suite.launch(how) === undefined;
        if (isLaunched) onOutput?.('to');
        await takeLeft(deps, order, [left, how], {
          id,
          signal,
          spans,
          onKept,
          ground,
          print,
          isLaunched,
          secrets: () => log.secrets,
          environment: { ...variables, ...suite.added() },
          ends: suite.ends(),
          services: { serviceImages: services?.imageDigests, serviceData: services?.data },
        });
      },
      interrupt: services?.signal,
      signal,
    });
    if (ended.used) onUsage?.(wholeFigures(ended.used));
    const died = services?.failure();
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
    const { outcome, message: words } = failureBefore(error);
    if (error instanceof FetchError) await log.push(tail.bytes());
    if (error instanceof CannotRunError) await log.newLine();
    if (words !== undefined) await print(`${words}\n`);
    return outcome;
  } finally {
    await log.flush();
  }
};

/** Images are built in overlays of the build's own, which cannot lie over the layers of steps. */
function keepsSteps({ kept, sandboxes, isSoonGone = false }: RunnerDeps, order: SuiteOrder): boolean {
  const isKept = kept !== undefined && sandboxes.hasLayers && !isSoonGone && (order.keep?.hours ?? 0) > 0;
  return isKept && order.steps.length > 1 && !order.imageBuilds;
}

/** A token without its signature opens nothing, so a build may print the rest of it. */
function tokenSecrets({ tokens = {} }: SuiteOrder): string[] {
  return Object.values(tokens).flatMap((token) => [token, token.slice(token.lastIndexOf('.') + 1)]);
}

/** The outcome of a build that could not run, with words for its log. Rethrows other errors: they are the runner's. */
export function failureBefore(error: unknown): { outcome: Outcome; message?: string } {
  if (error instanceof FetchError) return { outcome: { kind: 'unfetchable', reason: error.kind } };
  if (error instanceof CannotRunError)
    return { outcome: { kind: 'unrunnable', reason: error.reason }, message: error.message };
  if (error instanceof TimedOutError) return { outcome: { kind: 'timed_out' }, message: error.message };
  if (error instanceof FilesGoneError)
    return { outcome: { kind: 'files_gone', ...(error.build !== undefined && { build: error.build }) } };
  if (error instanceof EnvironmentFileError) {
    const message = `The variables that the operator of this runner sets for builds cannot be read: ${error.message}`;
    return { outcome: { kind: 'unrunnable', reason: 'environment_unreadable' }, message };
  }
  if (!(error instanceof CannotMountError)) throw error;
  return {
    outcome: { kind: 'unrunnable', reason: 'not_isolated' },
    message: `The suite cannot run here: ${error.message}`,
  };
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
