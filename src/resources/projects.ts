import type { Caller } from '../auth/callers.ts';
import { projectsSeenBy, type VisibleProject } from '../auth/projects.ts';
import { forgetInvited } from '../auth/users.ts';
import { allRows } from '../api/pages.ts';
import { accountRoute, projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { sealedLocation } from '../db/schema.ts';
import { mapYielding } from '../lib/event-loop.ts';
import type { Vault } from '../lib/vault.ts';
import { changeProject, createProject, deleteProject } from '../lifecycle/projects.ts';
import { projectView } from '../views/project.ts';
import { addressesOf, wrongAddresses } from '../records/addresses.ts';
import { columnsOf } from '../records/fields.ts';
import { projectFields, projectRecord, type Project } from '../records/project.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, writeContextOf } from './common.ts';
import { projectFirehose } from './firehoses.ts';
import { checkName, orTaken } from './names.ts';

function view(project: VisibleProject, vault: Vault): Project {
  return {
    ...projectView(project, project.owned),
    ssh_public_key: vault.openPublic(project.ssh_public_key, publicKeyLocation(project.id)),
  };
}

const publicKeyLocation = (id: bigint): string => sealedLocation({ table: 'projects', column: 'ssh_public_key' }, id);

/** The projects that a user owns or collaborates on. */
export async function projectsOf(db: Queries, caller: Caller) {
  const rows = await allRows(projectsSeenBy(db, caller).selectAll('p'), 'p.id');
  return rows.map((row) => ({ ...row, owned: row.owner_id === caller.id }));
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/projects',
    access: 'both',
    scope: 'projects',
    summary: 'List the projects you own and those you collaborate on',
    answer: listOf(projectRecord),
    handle: async ({ db, caller, vault }) => mapYielding(await projectsOf(db, caller), (row) => view(row, vault)),
  }),
  accountRoute({
    method: 'POST',
    path: '/projects',
    access: 'users',
    scope: 'projects',
    summary: 'Create a project; its SSH key is made with it, to be installed in the repository',
    body: projectFields,
    creates: 'projects',
    answer: projectRecord,
    verify: async (_, values) => wrongAddresses(values, { isNew: true }),
    verifyNames: ({ db, caller }, values) => checkName(db, 'projects', { within: caller.id, name: values.name }),
    audit: {
      action: 'project.created',
      details: ({ input }) => ({ clone_url: addressesOf(input).clone_url, ssh_key: 'made' }),
    },
    async handle(call) {
      const { caller, vault, input } = call;
      const settings = { ...columnsOf(projectFields, input), ...addressesOf(input) };
      const project = await orTaken(createProject(writeContextOf(call), caller.id, vault, settings));
      return view({ ...project, owned: true }, vault);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id',
    access: 'both',
    scope: 'projects',
    summary: 'Fetch a project',
    answer: projectRecord,
    handle: async ({ project, vault }) => view(project, vault),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id',
    access: 'users',
    scope: 'projects',
    summary: 'Change a project',
    body: projectFields,
    changes: 'projects',
    answer: projectRecord,
    verify: async (_, values) => wrongAddresses(values, { isNew: false }),
    verifyNames: ({ db, project }, values) =>
      checkName(db, 'projects', { within: project.owner_id, name: values.name, except: project.id }),
    audit: {
      action: 'project.updated',
      subject: ({ project }) => project,
      // The audit log records the address of the repository: it decides which code runs with the project's secrets.
      details({ project: { clone_url: from }, input }) {
        const { clone_url: to = from } = addressesOf(input);
        return from === to ? {} : { clone_url: { from, to } };
      },
    },
    async handle(call) {
      const { project, vault, input } = call;
      const changed = { ...columnsOf(projectFields, input), ...addressesOf(input) };
      await orTaken(changeProject(writeContextOf(call), project, changed));
      return view({ ...project, ...changed }, vault);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id',
    access: 'users',
    scope: 'projects',
    summary: 'Delete a project and everything in it',
    answer: destroyedAnswer,
    audit: { action: 'project.deleted', subject: ({ project }) => project },
    async handle(call) {
      const { db, project } = call;
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
  }),
  projectFirehose,
];
