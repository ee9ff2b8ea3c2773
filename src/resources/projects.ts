import type { VisibleProject } from '../auth/projects.ts';
import { accountRoute, projectRoute } from '../api/route.ts';
import { sealedPlace, type ProjectRow } from '../db/schema.ts';
import { required } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { generateSshKeyPair } from '../lib/ssh-keys.ts';
import type { Vault } from '../lib/vault.ts';
import { dropWork } from '../lifecycle/requests.ts';
import { projectView } from '../views/project.ts';
import { destroyed, destroyedAnswer, idTwin, lifeOf } from './common.ts';
import { description, name, repositoryUrl } from './forms.ts';
import { projectFirehose } from './firehoses.ts';
import { checkName, orTaken } from './names.ts';

const answer = schema.record({
  ...idTwin,
  name: schema.string,
  description: schema.string,
  repository_url: schema.string,
  build_state: schema.string,
  owned: schema.boolean,
  ssh_public_key: schema.string,
});

function view(project: VisibleProject, vault: Vault): object {
  return {
    ...projectView(project, project.owned),
    ssh_public_key: vault.openPublic(project.ssh_public_key, publicKeyPlace(project.id)),
  };
}

const publicKeyPlace = (id: bigint): string => sealedPlace({ table: 'projects', column: 'ssh_public_key' }, id);
const privateKeyPlace = (id: bigint): string => sealedPlace({ table: 'projects', column: 'ssh_private_key' }, id);

const fields = {
  name: required(name()),
  repository_url: required(repositoryUrl()),
  description: description(),
};

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/projects',
    access: 'both',
    scope: 'projects',
    summary: 'List the projects you own and those you collaborate on',
    answer: schema.listOf(answer),
    async handle({ db, caller, vault }) {
      const rows = await db
        .selectFrom('projects')
        .selectAll()
        .where((where) =>
          where.or([
            where('owner_id', '=', caller.id),
            where('id', 'in', where.selectFrom('collaborators').select('project_id').where('user_id', '=', caller.id)),
          ]),
        )
        .orderBy('id')
        .execute();
      const visible = rows.map((row) => ({ ...row, owned: row.owner_id === caller.id }));
      // Who does not pay cannot use what is theirs, but goes on with what they share.
      return visible.filter((row) => !(row.owned && caller.unpaid)).map((row) => view(row, vault));
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/projects',
    access: 'users',
    scope: 'projects',
    summary: 'Create a project; its SSH key is made with it, to be installed in the repository',
    body: fields,
    creates: true,
    answer,
    verifyNames: ({ db, caller }, values) => checkName(db, 'projects', { within: caller.id, name: values.name }),
    audit: {
      action: 'project.created',
      details: ({ input }) => ({ repository_url: input.repository_url, ssh_key: 'made' }),
    },
    async handle({ db, caller, ids, vault, input }) {
      const id = ids.next();
      const keys = generateSshKeyPair(`headrace-${id}`);
      const project: ProjectRow = {
        id,
        owner_id: caller.id,
        ...input,
        build_state: 'new',
        ssh_public_key: vault.seal(keys.publicKey, publicKeyPlace(id)),
        ssh_private_key: vault.seal(keys.privateKey, privateKeyPlace(id)),
        created_at: BigInt(Date.now()),
        last_event: 0n,
        trunk_commit_id: null,
      };
      await orTaken(db.insertInto('projects').values(project).execute());
      return view({ ...project, owned: true }, vault);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id',
    access: 'both',
    scope: 'projects',
    summary: 'Fetch a project',
    answer,
    handle: async ({ project, vault }) => view(project, vault),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id',
    access: 'users',
    scope: 'projects',
    summary: 'Change a project',
    body: fields,
    answer,
    verifyNames: ({ db, project }, values) =>
      checkName(db, 'projects', { within: project.owner_id, name: values.name, except: project.id }),
    audit: {
      action: 'project.updated',
      subject: ({ project }) => project,
      // Whoever says where the code comes from says what runs with the project's secrets.
      details({ project: { repository_url: from }, input: { repository_url: to = from } }) {
        return from === to ? {} : { repository_url: { from, to } };
      },
    },
    async handle({ db, project, vault, input }) {
      if (Object.keys(input).length > 0) {
        await orTaken(db.updateTable('projects').set(input).where('id', '=', project.id).execute());
      }
      return view({ ...project, ...input }, vault);
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
      await dropWork(lifeOf(call), project.id);
      await db.deleteFrom('projects').where('id', '=', project.id).execute();
      return destroyed;
    },
  }),
  projectFirehose,
];
