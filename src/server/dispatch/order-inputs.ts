import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import { buildVariables } from '../../shared/domain/build-variables.ts';
import { variablesIn } from '../../shared/domain/matrix.ts';
import { sha256 } from '../../shared/lib/sha256.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { ServiceOrder, SuiteOrder } from '../../shared/protocol/index.ts';
import { digestOfInput } from '../lifecycle/build-inputs.ts';
import { servicesIn } from '../lifecycle/build-services.ts';
import type { SuiteSettings } from '../lifecycle/file-suites.ts';
import type { Layer } from '../software/software.ts';
import type { SuiteParts } from './suite-parts.ts';

/*
 * What a build stands on, as far as the server knows it. Both tables name every field, so that a new one does not
 * compile until someone decides whether it can change how a build ends.
 */

interface Standing {
  build: SuiteParts;
  layers: readonly Layer[];
  /** The build whose files it begins with. */
  filesOf: bigint | undefined;
}

const noInput = 'no input';

/** `order`: the field reaches the build through its order. */
const fieldsOfSuite = {
  name: (build) => build.suite_name,
  tags: (build) => build.tags,
  id_tokens: (build) => build.id_tokens,
  api_token: (build) => build.api_token,
  inputs: (build) => build.inputs,
  ignore_variables: (build) => build.ignore_variables,
  uses_request: (build) => build.uses_request,
  command: 'order',
  steps: 'order',
  services: 'order',
  image: 'order',
  root: 'order',
  builds_images: 'order',
  reports: 'order',
  timeout: 'order',
  cache: 'order',
  artifacts: 'order',
  files_from_id: 'order',
  files_from: 'order',
  files_from_name: 'order',
  matrix: 'order',
  matrix_include: 'order',
  reuse: noInput,
  reuse_days: noInput,
  description: noInput,
  allow_failure: noInput,
  retries: noInput,
  retry_on: noInput,
  resume: noInput,
  matrix_exclude: noInput,
  matrix_allow_failure: noInput,
  cache_save: noInput,
  annotations: noInput,
  needs: noInput,
  approval: noInput,
  approvers: noInput,
  manual: noInput,
  concurrency_group: noInput,
  priority: noInput,
} as const satisfies Record<keyof SuiteSettings, 'order' | typeof noInput | ((build: SuiteParts) => string | number)>;

type Listed = Omit<BuildInput, 'digest'> & ({ digest: string } | { content: unknown });

type Lists<Order> = {
  [Field in keyof Order]-?: typeof noInput | ((value: NonNullable<Order[Field]>, standing: Standing) => Listed[]);
};

const setting = (name: string, content: unknown): Listed => ({ kind: 'setting', name, content });

const limitNames = {
  memoryBytes: 'memory',
  processes: 'processes',
  timeoutSeconds: 'time',
} as const satisfies Record<keyof SuiteOrder['limits'], string>;

const fieldsOfOrder: Lists<SuiteOrder> = {
  kind: noInput,
  source: noInput,
  // The commit's files count. A commit that an old runner fetched has no digest of them.
  sha: (sha, { build }) => [{ kind: 'tree', name: 'commit', content: build.tree || sha }],
  fetchRef: noInput,
  merge: noInput, // its files count, as a commit's
  isSealed: noInput, // a suite under reuse only compares its builds with others of that kind
  inputs: noInput, // the runner reports a digest of these files, and the globs are a setting of the suite
  isFork: noInput, // it shows in the tree's missing parts, and in the variables
  steps: (steps) =>
    steps.map(({ name, command, when }, at) => ({ kind: 'command', name, content: [at, command, when] })),
  environment: (all, { build }) => [
    ...Object.entries(variablesIn(build.variant)).map(
      ([name, content]) => ({ kind: 'variant', name, content }) as const,
    ),
    ...Object.entries(all)
      .filter(([name]) => !isOwn(name) && !Object.hasOwn(variablesIn(build.variant), name))
      .map(([name, content]) => ({ kind: 'variable', name, digest: sha256(content) }) as const),
    ...(build.uses_request === 1 ? requestInputs(all) : []),
  ],
  secrets: noInput, // they are variables
  tokens: noInput, // different for each build, and settings of the suite
  api: noInput,
  limits: (limits) =>
    Object.entries(limitNames).map(([field, name]) => {
      return { kind: 'limit', name, content: limits[field as keyof typeof limits] };
    }),
  software: (software, { layers }) =>
    software.map(({ digest, prefix }) => {
      const named = layers.find((layer) => layer.digest === digest && layer.prefix === prefix);
      return { kind: 'dependency', name: named?.name ?? prefix, digest };
    }),
  prefixes: (prefixes, { layers }) =>
    prefixes.length === 0
      ? []
      : [setting('search_order', [prefixes, layers.map(({ name, prefix }) => [name, prefix])])],
  launches: (launches) =>
    launches.map(({ name, command }, at) => ({ kind: 'command', name: `launch of ${name}`, content: [at, command] })),
  isTraced: noInput,
  image: noInput, // the runner reports its digest
  root: (root) => [setting('root', root)],
  imageBuilds: ({ registries }) => [setting('builds_images', registries)],
  artifacts: ({ globs, mostFiles, mostBytes }) => [
    setting('artifacts', globs),
    { kind: 'limit', name: 'artifacts', content: [mostFiles, mostBytes] },
  ],
  cache: ({ paths, mostBytes }) => [setting('cache', paths), { kind: 'limit', name: 'cache', content: mostBytes }],
  reports: (globs) => [setting('reports', globs)],
  files: ({ suite }, { filesOf }) => [{ kind: 'files', name: suite, content: String(filesOf) }],
  lent: (lent) =>
    lent.map(({ suite, variant, build }) => {
      return { kind: 'files', name: [suite, variant].join(' ').trim(), content: build };
    }),
  // Its files came from the same inputs, or it begins at the first step (runner/step-starts.ts).
  from: noInput,
  resume: noInput,
  keep: noInput,
  services: (services, { build }) => {
    const settings = servicesIn(build.suite_services);
    return services.map((service, at) => serviceInput(service, at, settings[at]?.variables));
  },
};

/**
 * Its image has a digest of its own, and its data are made of these settings. Values that it takes from variables are
 * inputs as variables: in this digest, those who may not see them could compare them with a value of their choice.
 */
function serviceInput(
  { image, kept: _kept, saves: _saves, environment: _environment, ...service }: ServiceOrder,
  at: number,
  variables: unknown,
): Listed {
  return { kind: 'service', name: service.name, content: [at, image !== undefined, service, variables] };
}

/** Not its number and attempt, which differ for each build. */
const ofRequest = [
  'HEADRACE_COMMIT',
  'HEADRACE_REF',
  'HEADRACE_BRANCH',
  'HEADRACE_EVENT',
  'HEADRACE_PULL_REQUEST',
  'HEADRACE_TARGET_BRANCH',
  'HEADRACE_HEAD_SHA',
  'HEADRACE_MERGE_BASE',
] as const satisfies (typeof buildVariables)[number][];

const requestInputs = (all: Readonly<Record<string, string>>): Listed[] =>
  ofRequest.flatMap((name) => (all[name] === undefined ? [] : [{ kind: 'request', name, content: all[name] }]));

const ofEveryBuild: ReadonlySet<string> = new Set([...buildVariables, 'CI', 'TRACEPARENT']);
const isOwn = (name: string): boolean => ofEveryBuild.has(name);

export function inputsOf(vault: Vault, order: SuiteOrder, standing: Standing): BuildInput[] {
  const { build } = standing;
  const ofSuite = Object.entries(fieldsOfSuite).flatMap(([name, field]) =>
    typeof field === 'string' ? [] : [setting(name, field(build))],
  );
  const ofOrder = Object.entries(fieldsOfOrder).flatMap(([name, list]) => {
    const value: unknown = order[name as keyof SuiteOrder];
    if (list === noInput || value === undefined) return [];
    if (name === 'sha' && order.inputs !== undefined) return []; // the runner reports what matters of it
    return (list as (value: unknown, standing: Standing) => Listed[])(value, standing);
  });
  return [...ofSuite, ...ofOrder].map(({ kind, name, ...one }) => {
    const digest = 'digest' in one ? one.digest : sha256(JSON.stringify(one.content));
    return { kind, name, digest: digestOfInput(vault, build.project_id, { kind, name, digest }) };
  });
}
