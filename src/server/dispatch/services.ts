import { servicesIn, toldOfData, type SuiteService } from '../lifecycle/build-services.ts';
import type { Layer } from '../software/software.ts';
import { findServiceData, noteUseOfServiceData, saveServiceData, type ReadingBuild } from '../outputs/service-data.ts';
import type { ServiceOrder, ServiceState } from '../../shared/protocol/index.ts';
import type { ServiceDataRow } from '../db/schema.ts';
import { mayWrite } from './caches.ts';
import { imageOrder } from './images.ts';
import type { JobContext } from './job-handler.ts';
import { noSoftware, ownSoftware } from './software.ts';

export interface OrderedServices {
  orders: ServiceOrder[];
  /** A service may begin with data that builds of its own branch left, and not with the default branch's. */
  hasOwnData: boolean;
  /** Dependencies that were not compiled yet. */
  missing: Layer[];
  /** Another obstacle, with its reason for users. */
  problem?: { reason: 'variable_missing' | 'dependency_not_compiled'; message: string };
}

interface Asked {
  build: ReadingBuild;
  services: string;
  accountId: bigint;
  /** The suite's variables; undefined if the build may have none. */
  variables: Readonly<Record<string, string>> | undefined;
}

export async function orderServices(
  context: JobContext,
  { build, services, accountId, variables }: Asked,
): Promise<OrderedServices> {
  const ordered: OrderedServices = { orders: [], missing: [], hasOwnData: false };
  for (const service of servicesIn(services)) {
    const { name, image, dependency_id: dependency, command, prepare, data } = service;
    const software = dependency === '' ? noSoftware : await ownSoftware(context, accountId, BigInt(dependency));
    if (!software)
      ordered.problem = {
        reason: 'dependency_not_compiled',
        message: `The dependency of the service ${name} was deleted. Choose another one, or an image.`,
      };
    ordered.missing.push(...(software?.missing ?? []));
    const unknown = variables && service.variables.find(({ from }) => from !== '' && variables[from] === undefined);
    if (unknown)
      ordered.problem = {
        reason: 'variable_missing',
        message: `The service ${name} takes ${unknown.name} from the variable ${unknown.from}, but the suite has no such variable.`,
      };
    const hasData = prepare !== '' && data.length > 0;
    const found = hasData ? await findServiceData(context.trx, build, name) : [];
    ordered.hasOwnData ||= found.some(({ branch }) => branch !== build.default_branch);
    ordered.orders.push({
      name,
      ...imageOrder(image, accountId),
      software: software?.software ?? [],
      prefixes: software?.prefixes ?? [],
      command,
      environment: environmentOf(service, variables ?? {}),
      readyPort: service.ready_port,
      readyCommand: service.ready_command,
      readyTimeoutSeconds: service.ready_timeout,
      prepare,
      prepareInputs: service.prepare_inputs,
      data,
      ...(hasData && keptOrder(build, found)),
    });
  }
  return ordered;
}

/** Values from withheld variables are blank. */
function environmentOf({ variables }: SuiteService, ofSuite: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    variables.map(({ name, content, from }) => [name, from === '' ? content : (ofSuite[from] ?? '')]),
  );
}

/** Data that the service may start with, and whether its own data are saved. */
function keptOrder(build: ReadingBuild, found: readonly ServiceDataRow[]): Pick<ServiceOrder, 'kept' | 'saves'> {
  const kept = found.map(({ tree, made_of: digest, build_id: by, created_at: made }) => ({
    name: String(tree),
    digest,
    build: String(by),
    madeAt: Number(made),
  }));
  return { ...(kept.length > 0 && { kept }), ...(mayWrite(build) && { saves: true }) };
}

/** A runner reports data several times. Only new data count, because a user may have deleted some in between. */
export async function noteServiceData(
  context: JobContext,
  buildId: bigint,
  told: readonly ServiceState[],
): Promise<void> {
  const some = told.filter(({ data }) => data);
  if (some.length === 0) return;
  const build = await context.trx
    .selectFrom('builds')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select(['builds.project_id', 'builds.suite_id', 'builds.services', 'build_requests.branch', 'from_fork'])
    .where('builds.id', '=', buildId)
    .executeTakeFirst();
  if (!build) return;
  const isTold = toldOfData(build);
  for (const { name, data } of some) {
    if (!data || isTold.get(name) !== false) continue;
    const tree = BigInt(data.name);
    if (!data.isMade) await noteUseOfServiceData(context, build.project_id, tree);
    else if (mayWrite(build))
      await saveServiceData(context, {
        project_id: build.project_id,
        suite_id: build.suite_id,
        branch: build.branch,
        service: name,
        tree,
        made_of: data.digest,
        has_secrets: data.hadSecrets ? 1 : 0,
        build_id: buildId,
        size: BigInt(data.bytes),
      });
  }
}
