import { servicesIn } from '../lifecycle/build-services.ts';
import type { BuildsVariables } from '../lifecycle/build-variables.ts';
import type { StepOrder } from '../../shared/protocol/index.ts';

const why = {
  fork: 'This build comes from a fork',
  new_suite: 'Only this commit’s file defines the suite',
  pull_request: 'This build belongs to a pull request, not to the refs that these variables are limited to',
  ref: 'This build does not match the refs that these variables are limited to',
} as const;

interface Using {
  withheld: BuildsVariables['withheld'];
  /** The build's values of the same names from other sources. */
  has: Readonly<Record<string, string>>;
  steps: readonly StepOrder[];
  services: string;
}

/** Only for variables named in a step or service, because the build's page lists all. Scripts are not read. */
export function withheldLine({ withheld, has, steps, services }: Using): string | undefined {
  const [first] = withheld;
  if (!first) return undefined;
  const texts = [
    ...steps.map(({ command }) => command),
    ...servicesIn(services).flatMap((one) => [
      one.command,
      one.ready_command,
      one.prepare,
      ...one.variables.map(({ from }) => from),
    ]),
  ];
  const words = new Set(texts.flatMap((text) => text.match(/[A-Za-z_]\w*/g) ?? []));
  const names = new Set(
    withheld.map(({ name }) => name).filter((name) => words.has(name) && !Object.hasOwn(has, name)),
  );
  if (names.size === 0) return undefined;
  return `${why[first.reason]}, so it does not get: ${[...names].toSorted().join(', ')}.`;
}
