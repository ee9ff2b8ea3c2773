import { servicesIn, type SuiteService } from '../lifecycle/build-services.ts';
import type { Layer } from '../lifecycle/software.ts';
import type { ServiceOrder } from '../protocol/index.ts';
import { imageOrder } from './images.ts';
import type { JobContext } from './job-handler.ts';
import { noSoftware, ownSoftware } from './software.ts';

/** The services of a build, as its runner gets them; what they lack is told with them. */
export interface OrderedServices {
  orders: ServiceOrder[];
  /** Software that was not compiled yet. */
  missing: Layer[];
  /** What else keeps the build from beginning, with its reason for people. */
  problem?: { reason: 'variable_missing' | 'dependency_not_compiled'; message: string };
}

interface Asked {
  /** The column of the suite. */
  services: string;
  accountId: bigint;
  /** The variables of the suite; undefined for a build that may have none of them. */
  variables: Readonly<Record<string, string>> | undefined;
}

export async function orderServices(
  context: JobContext,
  { services, accountId, variables }: Asked,
): Promise<OrderedServices> {
  const ordered: OrderedServices = { orders: [], missing: [] };
  for (const service of servicesIn(services)) {
    const { name, image, dependency_id: dependency, command, prepare, data } = service;
    const software = dependency === '' ? noSoftware : await ownSoftware(context, accountId, BigInt(dependency));
    if (!software)
      ordered.problem = {
        reason: 'dependency_not_compiled',
        message: `The dependency of the service ${name} is gone. Choose another one, or an image.`,
      };
    ordered.missing.push(...(software?.missing ?? []));
    const unknown = variables && service.variables.find(({ from }) => from !== '' && variables[from] === undefined);
    if (unknown)
      ordered.problem = {
        reason: 'variable_missing',
        message: `The service ${name} has ${unknown.name} from the variable ${unknown.from}, which this suite does not have.`,
      };
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
    });
  }
  return ordered;
}

/** What comes from a variable of the suite is blank in a build that may have none of them. */
function environmentOf({ variables }: SuiteService, ofSuite: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    variables.map(({ name, content, from }) => [name, from === '' ? content : (ofSuite[from] ?? '')]),
  );
}
