import type { SqlBool } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, ProjectRow, SuiteRow } from '../db/schema.ts';
import { settingsInVariant, settingsOf } from '../lifecycle/file-suites.ts';
import { isTaken } from './files.ts';

const settings = [
  'command',
  'timeout',
  'artifacts',
  'cache',
  'cache_save',
  'reports',
  'image',
  'root',
  'builds_images',
  'id_tokens',
  'api_token',
  'tags',
  'reuse',
  'inputs',
  'ignore_variables',
  'reuse_days',
  'uses_request',
] as const satisfies (keyof SuiteRow)[];
type Settings = Pick<SuiteRow, (typeof settings)[number]>;

type BuildOrNull = BuildRow & { [Name in keyof Settings]: Settings[Name] | null } & Pick<
    ProjectRow,
    'clone_url' | 'default_branch' | 'branch_secrets'
  > &
  Pick<
    BuildRequestRow,
    | 'commit_ref'
    | 'branch'
    | 'event'
    | 'pull_request'
    | 'target_branch'
    | 'from_fork'
    | 'fetch_ref'
    | 'fetched_as'
    | 'trace'
    | 'variables'
    | 'config_digest'
    | 'head_sha'
    | 'merge_base'
  > & {
    suite_steps: string | null;
    suite_services: string | null;
    /** The project suite's setting, even if a file's suite builds. */
    project_builds_images: number | null;
    project_api_token: SuiteRow['api_token'] | null;
    sha: string;
    tree: string;
    has_software: SqlBool;
    has_variables: SqlBool;
    is_taken: SqlBool;
    /** Its reuse ended because a result that was reused was wrong. */
    reuse_stopped: SqlBool;
  };

/** Includes the names of the dependencies if the suite comes from a file. */
export type SuiteParts = Omit<BuildOrNull, keyof Settings | 'suite_steps' | 'suite_services'> &
  Settings & { suite_steps: string; suite_services: string; dependencies: readonly string[] | undefined };

/** Undefined if the suite was deleted since. */
export async function suiteParts(db: Queries, id: bigint): Promise<SuiteParts | undefined> {
  const found = await findBuild(db, id);
  if (!found || (found.config_digest === '' && found.command === null)) return undefined;
  if (found.config_digest === '') return ofVariant({ ...found, dependencies: undefined } as SuiteParts);
  const suite = await settingsOf(db, found);
  if (!suite) return undefined;
  const fromFile = Object.fromEntries(settings.map((name) => [name, suite[name]])) as unknown as Settings;
  const { dependencies = [] } = suite;
  const { steps: suite_steps, services: suite_services } = suite;
  return { ...found, ...fromFile, suite_steps, suite_services, dependencies, has_software: dependencies.length > 0 };
}

function ofVariant({ image, artifacts, tags, suite_services: services, ...parts }: SuiteParts): SuiteParts {
  const written = { image, artifacts, tags, services };
  const { services: suite_services, ...own } = settingsInVariant(written, parts.variant);
  return { ...parts, ...own, suite_services };
}

const findBuild = (db: Queries, build: bigint): Promise<BuildOrNull | undefined> =>
  db
    .selectFrom('builds')
    .leftJoin('suites', 'suites.id', 'builds.suite_id')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .selectAll('builds')
    .select([
      'suites.id as suite_id',
      'suites.steps as suite_steps',
      'suites.services as suite_services',
      'suites.builds_images as project_builds_images',
      'suites.api_token as project_api_token',
      ...settings.map((name) => `suites.${name}` as const),
    ])
    .select(['projects.clone_url', 'projects.default_branch', 'projects.branch_secrets'])
    .select(['commits.ref as sha', 'commits.tree', 'build_requests.commit_ref', 'build_requests.branch'])
    .select(['build_requests.event', 'build_requests.pull_request'])
    .select(['build_requests.target_branch', 'build_requests.from_fork', 'build_requests.fetch_ref'])
    .select('build_requests.fetched_as')
    .select(['build_requests.head_sha', 'build_requests.merge_base'])
    .select(['build_requests.trace', 'build_requests.variables', 'build_requests.config_digest'])
    .select((of) => [
      of
        .exists(of.selectFrom('suite_dependencies').select('id').whereRef('suite_id', '=', 'suites.id'))
        .as('has_software'),
      of
        .exists(
          of
            .selectFrom('environment_variables')
            .select('id')
            .where((either) =>
              either.or([
                either('suite_id', '=', either.ref('suites.id')),
                either('environment_variables.project_id', '=', either.ref('projects.id')),
                either('environment_variables.organisation_id', '=', either.ref('projects.owner_id')),
              ]),
            ),
        )
        .as('has_variables'),
      isTaken.as('is_taken'),
      of
        .exists(
          of
            .selectFrom('reuse_stops')
            .select('reuse_stops.id')
            .whereRef('reuse_stops.project_id', '=', 'builds.project_id')
            .whereRef('reuse_stops.suite_name', '=', 'builds.suite_name'),
        )
        .as('reuse_stopped'),
    ])
    .where('builds.id', '=', build)
    .executeTakeFirst();
