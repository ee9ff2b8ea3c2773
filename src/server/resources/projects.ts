import type { Caller } from '../auth/callers.ts';
import { accountsManagedBy, projectsSeenBy, type VisibleProject } from '../auth/projects.ts';
import { forgetInvited } from '../auth/users.ts';
import { allRows } from '../api/pages.ts';
import { accountRoute, projectRoute } from '../api/route.ts';
import { ownerFor, roleIn } from '../auth/organisations.ts';
import type { Queries } from '../db/open.ts';
import { organisationOf } from '../db/organisation-of.ts';
import { sealedLocation, type ForgeRow, type ProjectRow } from '../db/schema.ts';
import { parseGitAddress } from '../../shared/domain/git-address.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import type { ForgeRepository } from '../forges/forge.ts';
import { gitOriginAt } from '../forges/git-credential.ts';
import { mapYielding } from '../../shared/lib/event-loop.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { changeProject, createProject, deleteProject, newIdentity } from '../lifecycle/projects.ts';
import { arrangePolling } from '../triggers/polls.ts';
import { projectView } from '../views/project.ts';
import { addressesOf, wrongAddresses } from '../../shared/records/addresses.ts';
import { columnsOf, described, identifier, type ValuesOf } from '../../shared/records/fields.ts';
import { forgeRepository } from '../../shared/records/forge.ts';
import type { Parameter } from '../../shared/records/parameter.ts';
import { projectFields, projectRecord, type Project } from '../../shared/records/project.ts';
import { listOf } from '../../shared/records/schema.ts';
import { secretsAmong } from './asked-variables.ts';
import { destroyed, destroyedAnswer, writeContextOf } from './common.ts';
import { projectFirehose } from './firehoses.ts';
import {
  atForge,
  type Asking,
  connectionFor,
  forgeNamed,
  giveBack,
  storeConnection,
  leadsAway,
  leaveForge,
  unlink,
  untilTried,
  usableRepository,
} from './forge-connections.ts';
import { wantComments } from './hooks.ts';
import { checkName, orTaken, type NameScope } from './names.ts';

export function projectRecordOf(
  project: Omit<VisibleProject, 'role'> & { role?: VisibleProject['role'] },
  vault: Vault,
): Project {
  return {
    ...projectView(project, project.owned),
    ssh_public_key: vault.open(project.ssh_public_key, publicKeyLocation(project.id)),
  };
}

const publicKeyLocation = (id: bigint): string => sealedLocation({ table: 'projects', column: 'ssh_public_key' }, id);

export async function projectsOf(db: Queries, caller: Caller, organisationId?: bigint) {
  const seen = projectsSeenBy(db, caller).selectAll('p').select(organisationOf);
  const rows = await allRows(
    organisationId === undefined ? seen : seen.where('p.owner_id', '=', organisationId),
    'p.id',
  );
  const managed = await accountsManagedBy(db, caller);
  return rows.map((row) => ({ ...row, owned: managed.has(row.owner_id) }));
}

/** A new project names either an address or a repository at a forge. */
const newProjectFields = {
  ...projectFields,
  name: { ...projectFields.name, required: false },
  forge_id: described(identifier(), 'one of your forges: the project is created with its key, hook and statuses there'),
  repository: forgeRepository,
  organisation_id: described(identifier(), 'the organisation that owns it; by default you do'),
};

function checkSource(values: Partial<ValuesOf<typeof newProjectFields>>): FieldErrors {
  const { forge_id: forge, repository, name } = values;
  const errors: FieldErrors = {};
  if (forge === undefined && repository !== '' && repository !== undefined) errors.forge_id = ['is_blank'];
  else if (forge === undefined) {
    if (name === '') errors.name = ['is_blank'];
    Object.assign(errors, wrongAddresses(values, { isNew: true }));
  } else {
    if (repository === '') errors.repository = ['is_blank'];
    for (const address of ['repository_url', 'clone_url'] as const)
      if (values[address]) errors[address] = ['invalid_format'];
  }
  return errors;
}

/**
 * Forges are untrusted. The address must be SSH, or HTTPS at the forge's own host, because only that host gets the
 * token.
 */
function addressAt(forge: ForgeRow, { ssh_url: ssh, https_url: https }: ForgeRepository): string {
  const { scheme, user = '' } = parseGitAddress(ssh) ?? {};
  if (scheme === 'ssh' && user !== '') return ssh;
  if (gitOriginAt(forge, https) !== '') return https;
  const message = 'The forge reports no git address over SSH, and none over HTTPS at its own host.';
  throw ApiError.inWords('invalid_format', 'repository', message);
}

/** Creates the parts at the forge before the project. */
async function newAtForge(call: Asking & { input: ValuesOf<typeof newProjectFields>; account: bigint }) {
  const { db, account, ids, input } = call;
  if (input.forge_id === undefined) return {};
  const row = await forgeNamed(call, account, input.forge_id);
  const repository = await usableRepository(call, row, { name: input.repository, id: '' });
  const address = addressAt(row, repository);
  const name = input.name || (await freeName(db, account, repository.full_name));
  const identity = newIdentity(ids);
  const { comment_commands: comments } = input;
  const wanted = { id: identity.id, name, publicKey: identity.keys.publicKey, isNew: true, comments };
  return { made: { ...(await atForge(call, { row, repository }, wanted)), address, identity } };
}

const ownedBy = (owner: bigint): NameScope => ({ table: 'projects', column: 'owner_id', within: owner });

/** A secret cannot be asked for. */
async function checkParameters(
  db: Queries,
  project: Pick<ProjectRow, 'id' | 'owner_id'>,
  { parameters = [] }: { parameters?: readonly Parameter[] },
): Promise<FieldErrors> {
  const names = parameters.map(({ name }) => name);
  const secrets = await secretsAmong(db, project, names);
  const wrong = names.flatMap((name, at) => (secrets.has(name) ? [`parameters[${at}][name]`] : []));
  return Object.fromEntries(wrong.map((field) => [field, ['invalid_format'] as const]));
}

function checkPublic(isAllowed: boolean, values: { public?: boolean | undefined }): FieldErrors {
  return values.public && !isAllowed ? { public: ['invalid_format'] } : {};
}

/** The last part of the repository's name, or the whole name if the part is taken. */
async function freeName(db: Queries, owner: bigint, repository: string): Promise<string> {
  const last = repository.slice(repository.lastIndexOf('/') + 1);
  for (const name of [last, repository])
    if (Object.keys(await checkName(db, ownedBy(owner), name)).length === 0) return name;
  throw new ApiError('already_exists', 'name');
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/projects',
    access: 'both',
    scope: 'projects',
    forSomeProjects: true,
    summary: 'List the projects you own, those of your organisations, and those you collaborate on',
    query: { organisation_id: described(identifier(), 'Only those of this organisation') },
    answer: listOf(projectRecord),
    async handle({ db, caller, vault, query: { organisation_id: id } }) {
      if (id !== undefined && (await roleIn(db, id, caller.id)) === undefined)
        throw new ApiError('not_found', 'organisation_id');
      return mapYielding(await projectsOf(db, caller, id), (row) => projectRecordOf(row, vault));
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/projects',
    access: 'users',
    scope: 'projects',
    summary: 'Create a project and its SSH key, which you install in the repository',
    body: newProjectFields,
    creates: 'projects',
    answer: projectRecord,
    load: async ({ db, caller, input }) => ({
      account: await ownerFor(db, caller, input.organisation_id, 'maintainer'),
    }),
    verify: async ({ db, publicProjects, account }, values) => ({
      ...checkSource(values),
      ...checkPublic(publicProjects, values),
      ...(await checkParameters(db, { id: 0n, owner_id: account }, values)), // no project has the ID 0
    }),
    verifyNames: ({ db, account }, values) => checkName(db, ownedBy(account), values.name || undefined),
    ask: newAtForge,
    audit: {
      action: 'project.created',
      details: ({ input, made }) => ({
        ...(made ? { forge: made.forge.url, repository: made.repository.full_name } : {}),
        clone_url: made?.address ?? addressesOf(input).clone_url,
        ssh_key: 'made',
      }),
    },
    async handle(call) {
      const { account, vault, input, made } = call;
      const { forge_id: _forge, repository: _repository, organisation_id: organisation = null, ...own } = input;
      await call.database.holdRight(call.db, 'names', account);
      // Another project may have taken the name during the call to the forge.
      const name = input.name || (made ? await freeName(call.db, account, made.repository.full_name) : '');
      const written = { ...own, name, ...(made && { clone_url: made.address }) };
      const settings = { ...columnsOf(projectFields, written), ...addressesOf(written) };
      const context = writeContextOf(call);
      const project = await orTaken(createProject(context, account, vault, settings, made?.identity));
      if (project.poll_interval > 0) await arrangePolling(context, project, { isElsewhere: false });
      const link = made && (await storeConnection({ ...context, vault }, project, made));
      return projectRecordOf({ ...project, ...link, owned: true, organisation_id: organisation }, vault);
    },
    undo: async (call, { made }) => made && giveBack(call, undefined, made),
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/connect',
    access: 'maintainer',
    scope: 'projects',
    // The forge's token could open repositories of other projects.
    forSomeProjects: false,
    summary:
      'Connect a project to a forge of yours: sets up its key, hook and statuses there; missing ones are ' +
      'repaired on each call',
    body: {
      forge_id: described(identifier(), 'one of your forges; by default the one of the project'),
      repository: forgeRepository,
    },
    answer: projectRecord,
    ask: connectionFor,
    audit: {
      action: 'project.connected',
      subject: ({ project }) => project,
      details: ({ made }) =>
        made
          ? {
              forge: made.forge.url,
              repository: made.repository.full_name,
              ...(made.moved && { clone_url: made.moved }),
            }
          : {},
    },
    async handle(call) {
      const { project, vault, made } = call;
      if (!made) throw new Error('a forge is asked before a project is connected');
      return projectRecordOf(
        { ...project, ...(await storeConnection({ ...writeContextOf(call), vault }, project, made)) },
        vault,
      );
    },
    undo: (call, { made }) => giveBack(call, call.project.id, made),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id',
    access: 'public',
    scope: 'projects',
    summary: 'Fetch a project',
    answer: projectRecord,
    handle: async ({ project, vault }) => projectRecordOf(project, vault),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id',
    access: 'maintainer',
    scope: 'projects',
    summary: 'Change a project',
    body: projectFields,
    changes: 'projects',
    answer: projectRecord,
    verify: async ({ db, publicProjects, project }, values) => ({
      ...wrongAddresses(values, { isNew: false }),
      ...checkPublic(publicProjects, values),
      ...(await checkParameters(db, project, values)),
    }),
    verifyNames: ({ db, project }, values) => checkName(db, ownedBy(project.owner_id), values.name, project.id),
    audit: {
      action: 'project.updated',
      subject: ({ project }) => project,
      // The address determines which code runs with the project's secrets.
      details({ project: { clone_url: from }, input }) {
        const { clone_url: to = from } = addressesOf(input);
        return from === to ? {} : { clone_url: { from, to } };
      },
    },
    async handle(call) {
      const { project, vault, input } = call;
      const changed = { ...columnsOf(projectFields, input), ...addressesOf(input) };
      const context = writeContextOf(call);
      const { clone_url: address = project.clone_url } = changed;
      if (changed.comment_commands === 1) await wantComments(context, project.id);
      const link = (await leadsAway(context.trx, project, address))
        ? await unlink({ ...context, vault }, [project])
        : {};
      await orTaken(changeProject(context, project.id, changed));
      const isElsewhere = address !== project.clone_url;
      if (isElsewhere || changed.poll_interval !== undefined)
        await arrangePolling(context, { ...project, ...changed }, { isElsewhere });
      return projectRecordOf({ ...project, ...changed, ...link }, vault);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id',
    access: 'maintainer',
    scope: 'projects',
    summary: 'Delete a project and everything in it',
    answer: destroyedAnswer,
    audit: { action: 'project.deleted', subject: ({ project }) => project },
    async handle(call) {
      const { db, project, vault } = call;
      await leaveForge({ ...writeContextOf(call), vault }, project);
      const people = await db
        .selectFrom('collaborators')
        .select('user_id')
        .where('project_id', '=', project.id)
        .execute();
      await deleteProject(writeContextOf(call), project.id);
      await forgetInvited(
        db,
        people.map(({ user_id: id }) => id),
      );
      return destroyed;
    },
    async follow(call, shown: typeof destroyed) {
      if (call.project.forge_id !== null) await untilTried(call, call.project.forge_id);
      return shown;
    },
  }),
  projectFirehose,
];
