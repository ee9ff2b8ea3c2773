import { longest, most } from '../shared/domain/bounds.ts';
import { sha256 } from '../shared/lib/sha256.ts';
import type { CheckInputsOrder, RunnerInput } from '../shared/protocol/index.ts';
import type { RepositoryWithKey } from './checkouts.ts';
import type { RunnerDeps } from './job-runner.ts';

/** A build that runs, or one that only might. */
export type AskedBuild = Omit<CheckInputsOrder, 'kind' | 'source'> & { source: RepositoryWithKey };

export interface Found {
  /** The parts of the commit's files that could not be fetched. */
  misses: readonly string[];
  image: string | undefined;
  serviceImages: Readonly<Record<string, string>>;
  /** The operator's. Those of the order replace them. */
  variables: Readonly<Record<string, string>>;
}

/** What a build stands on that only its runner knows. */
export async function inputsHere(
  { machine, mirrors }: Pick<RunnerDeps, 'machine' | 'mirrors'>,
  build: AskedBuild,
  found: Found,
  signal: AbortSignal,
): Promise<RunnerInput[]> {
  const { source, image, services = [], environment, inputs: globs, ...commit } = build;
  const seesPrograms = !image || services.some((service) => !service.image);
  const images = [
    ...(found.image === undefined ? [] : [['build', found.image] as const]),
    ...Object.entries(found.serviceImages).map(([name, digest]) => [`service ${name}`, digest] as const),
  ];
  const matching = globs && (await mirrors.matching({ ...source, ...commit, globs, signal }));
  const others = [
    ...(await machine.of({ seesPrograms })),
    ...images.map(([name, digest]) => ({ kind: 'image', name, digest: digest.replace(/^sha256:/, '') }) as const),
    ...(found.misses.length === 0
      ? []
      : [{ kind: 'tree', name: 'missing parts', digest: sha256(found.misses.join('\n')) } as const]),
    ...(matching === undefined ? [] : [{ kind: 'tree', name: 'matching files', digest: matching } as const]),
  ];
  const variables = Object.entries(found.variables).filter(([name]) => !environment.includes(name));
  const room = most.runnerInputs - others.length - 1;
  const rest = variables.slice(room);
  return [
    ...others,
    ...variables.slice(0, room).map(([name, content]) => variable(name, content)),
    ...(rest.length === 0 ? [] : [variable('further variables of the operator', JSON.stringify(rest))]),
  ];
}

function variable(name: string, content: string): RunnerInput {
  return { kind: 'variable', name: name.slice(0, longest.inputName), digest: sha256(content) };
}
