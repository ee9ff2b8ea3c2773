import { join } from 'node:path';
import { Failure } from '../client/failure.ts';
import { readRanges } from '../../shared/lib/address-filter.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import type { Answered, Project } from '../client/operations.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';
import { filesFromOf } from '../../shared/documents/kinds.ts';
import { lentFilesFolder, takenBy } from '../../shared/domain/files-from.ts';
import { inVariant, variablesIn, variantsOf } from '../../shared/domain/matrix.ts';
import type { EndedSuite, ServiceOrder } from '../../runner/exec-suite.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { currentCommit, currentRef, topOf } from './git.ts';
import { LogWriter } from './log-output.ts';
import { keptResults } from './kept-results.ts';
import { choose } from './project.ts';
import { duration, exitStatus } from './states.ts';
import { folderOf } from './store.ts';
import { clean, words } from './text.ts';

interface Options {
  image?: string;
  variant?: string;
  withVariables?: true;
  write?: true;
  offline?: true;
}

/** Runs a suite on the unchanged working tree, in the sandbox of builds. */
export async function run(call: Call<Options>, named: string): Promise<number> {
  const { client, screen, options } = call;
  if (process.platform !== 'linux')
    throw new WrongUse(
      'exec needs Linux: builds run in a sandbox of its kernel. Request a build instead: headrace run -f',
    );
  const isWritten = options.write === true;
  if (isWritten && process.getuid?.() === 0)
    throw new WrongUse('root cannot use --write: a sandbox cannot own root’s files. Run it as the owner of the files.');
  const registryAllow = readRanges(call.env.HEADRACE_REGISTRY_ALLOW ?? '');
  if (!registryAllow)
    throw new WrongUse('HEADRACE_REGISTRY_ALLOW has to be a list of CIDR ranges: 10.0.0.0/8,fd00::/8');
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const { id_str: id } = choose(project, 'suite', await client.call('suites', inProject), named);
  const suite = await client.call('suite', { ...inProject, suite_id: id });
  const params = { ...inProject, suite_id: id };
  const software = await client.call('software', params);
  if (software.missing.length > 0)
    throw new Failure('unavailable', words`Not compiled yet: ${software.missing.join(', ')}`);
  const variables = options.withVariables ? await variablesFor(call, params) : [];
  const variant = variantOf(suite, options.variant);
  const filesFrom = filesFromOf(suite);
  const taken = takenBy(filesFrom, variant).join(', ');
  if (taken !== '')
    screen.hint(
      typeof filesFrom === 'string'
        ? words`${suite.name} starts with the files of ${taken} on a server. Here it starts with your working tree only.`
        : words`${suite.name} has the files of ${taken} in ${lentFilesFolder} on a server. Here it has your working tree only.`,
    );
  const tree = (await topOf(call.cwd)) ?? call.cwd;
  const folder = folderOf(call.env, 'cache');
  const ending = new AbortController();
  const end = (): void => ending.abort();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
  const writer = new LogWriter(screen, screen.out.isTTY);
  const began = performance.now();
  const { execSuite } = await import('../../runner/exec-suite.ts');
  process.umask(0o022); // the sandbox's user must read these files, and the folder itself is closed
  try {
    const ended = await execSuite({
      folder,
      tree,
      isWritten,
      network: options.offline ? 'none' : 'internet',
      launches: software.launches,
      steps: suite.steps.length > 0 ? suite.steps : [{ name: 'command', command: suite.command, when: 'passed' }],
      environment: {
        ...Object.fromEntries(variables.map(({ name, content }) => [name, content])),
        ...variablesIn(variant),
        ...(await factsOf(call.cwd, project, suite.name, variant)),
      },
      secrets: variables.filter(({ secret }) => secret).map(({ content }) => content),
      software: software.layers.map(mountOf),
      prefixes: software.prefixes,
      services: suite.services.map((service) => ({
        ...serviceOrder(service, variables, software.services, variant),
        name: inVariant(service.name, variant),
      })),
      registryAllow,
      buildsImages: suite.builds_images,
      image: {
        reference: options.image ?? inVariant(suite.image, variant),
        isChosen: options.image !== undefined,
        root: suite.root,
      },
      read: keptResults(client, {
        folder: join(folder, 'results'),
        suite: suite.id_str,
        layers: [...software.layers, ...software.services.flatMap(({ layers }) => layers)],
      }),
      timeoutSeconds: suite.timeout,
      writeLog: (chunk) => writer.write(chunk),
      log: options.verbose ? (message) => screen.hint(clean(message)) : () => {},
      signal: ending.signal,
    });
    await writer.end();
    const [status, how] = resultOf(ended, performance.now() - began);
    if (screen.isJson)
      screen.json({
        suite: suite.name,
        variant,
        exit_status: ended.exitStatus,
        reason: ended.reason,
        steps: ended.steps.map(({ name, state, status = null }) => ({ name, state, exit_status: status })),
      });
    else screen.hint(words`${suite.name}${variant === '' ? '' : ` (${variant})`} ${how}`);
    return status;
  } catch (error) {
    if (error instanceof Failure || error instanceof WrongUse) throw error;
    throw new Failure('unavailable', readableError(error), error instanceof Error ? (error.stack ?? '') : '');
  }
}

/** A variable of the suite replaces the project's of the same name. */
async function variablesFor({ client }: Call, params: { project_id: string; suite_id: string }) {
  const ofProject = await client.call('variables', { project_id: params.project_id });
  const ofSuite = await client.call('suiteVariables', params);
  return [...new Map([...ofProject, ...ofSuite].map((variable) => [variable.name, variable])).values()];
}

/** Errors of the sandbox are written for operators. This is the version for developers. */
function readableError(error: unknown): string {
  return messageOf(error)
    .replace('run builds without a network (HEADRACE_BUILD_NETWORK=none)', 'add --offline')
    .replace('the operator of this runner has not allowed it', 'your environment does not allow it')
    .replace(/^builds cannot/, 'Suites cannot')
    .replace(/\.?(?: To build without a network: [^.]*\.)? To try Headrace without isolation: .*$/, '.');
}

function resultOf({ exitStatus: status, reason, launch, steps }: EndedSuite, took: number): [number, string] {
  if (reason === 'cancelled') return [exitStatus.cancelled, 'was cancelled'];
  if (reason !== null) return [exitStatus.failed, `was ended: ${reason.replaceAll('_', ' ')}`];
  if (launch !== undefined)
    return [exitStatus.errored, `did not start: the launch command of ${launch} failed with ${status}`];
  if (status === 0) return [exitStatus.passed, `passed in ${duration(took)}`];
  const failed = steps.length > 1 ? steps.find(({ state }) => state === 'failed') : undefined;
  const where = failed ? ` in its step ${failed.name}` : '';
  return [exitStatus.failed, `failed${where} with exit status ${status} in ${duration(took)}`];
}

type Suite = Answered<'suite'>;
type Software = Answered<'software'>;

function mountOf({ digest, prefix }: Software['layers'][number]): { digest: string; prefix: string } {
  return { digest, prefix };
}

/** Values of a suite's variables are blank unless requested. */
function serviceOrder(
  service: Suite['services'][number],
  variables: readonly { name: string; content: string }[],
  software: Software['services'],
  variant: string,
): ServiceOrder {
  const { name } = service;
  const image = inVariant(service.image, variant);
  const own = software.find((one) => one.name === name);
  if (image === '' && !own)
    throw new Failure('unavailable', words`The dependency of the service ${name} was deleted. Choose another one.`);
  const ofSuite = new Map(variables.map((variable) => [variable.name, variable.content]));
  return {
    name,
    ...(image !== '' && { image: { reference: image, accountId: 'exec' } }),
    software: own?.layers.map(mountOf) ?? [],
    prefixes: own ? [...own.prefixes] : [],
    command: service.command,
    environment: Object.fromEntries(
      service.variables.map(({ name: key, content, from }) => [key, from === '' ? content : (ofSuite.get(from) ?? '')]),
    ),
    readyPort: service.ready_port,
    readyCommand: service.ready_command,
    readyTimeoutSeconds: service.ready_timeout,
    prepare: service.prepare,
    prepareInputs: [...service.prepare_inputs],
    data: [],
  };
}

function variantOf(suite: Suite, wanted: string | undefined): string {
  const { name } = suite;
  const variants = variantsOf(suite);
  if (wanted !== undefined && variants[0] === '')
    throw new WrongUse(words`${name} has no matrix, so there is no variant ${wanted} of it. Remove --variant.`);
  const found = wanted === undefined ? variants[0] : variants.find((one) => one === wanted);
  if (found === undefined)
    throw new WrongUse(words`${name} has no variant ${wanted ?? ''}. It has: ${variants.join('; ')}`);
  return found;
}

/** A server sets these facts about the build. Some are unknown here. */
async function factsOf(cwd: string, project: Project, suite: string, variant: string): Promise<Record<string, string>> {
  const [ref = '', commit = ''] = await Promise.all([currentRef(cwd), currentCommit(cwd)]);
  const facts = {
    HEADRACE: 'true',
    HEADRACE_PROJECT_ID: project.id_str,
    HEADRACE_BUILD_ID: '',
    HEADRACE_ATTEMPT: '1',
    HEADRACE_SUITE: suite,
    HEADRACE_VARIANT: variant,
    HEADRACE_COMMIT: commit,
    HEADRACE_REF: ref,
    HEADRACE_BRANCH: ref === commit ? '' : ref,
    HEADRACE_EVENT: 'manual',
    HEADRACE_PULL_REQUEST: '',
    HEADRACE_TARGET_BRANCH: '',
  } satisfies BuildVariables;
  return { CI: 'true', ...facts };
}
