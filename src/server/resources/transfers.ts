import { accountRoute, projectRoute } from '../api/route.ts';
import { holdRoom } from '../api/room.ts';
import type { Call } from '../api/call.ts';
import { ownerFor } from '../auth/organisations.ts';
import { managesProject } from '../auth/projects.ts';
import { findUser, normalizeEmail } from '../auth/users.ts';
import type { Transaction } from '../db/open.ts';
import { organisationOf } from '../db/organisation-of.ts';
import type { ProjectRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { giveProject, offerProject } from '../lifecycle/transfers.ts';
import { pinOwn } from '../software/pins.ts';
import { handOverPolling } from '../triggers/polls.ts';
import { described, identifier, refined, text } from '../../shared/records/fields.ts';
import { projectRecord } from '../../shared/records/project.ts';
import { leaveCollaborators } from './collaborators.ts';
import { destroyed, destroyedAnswer, orNotFound, writeContextOf, type InAccount } from './common.ts';
import { checkName, orTaken } from './names.ts';
import { projectRecordOf } from './projects.ts';

type Giving = Pick<Call, 'database' | 'ids' | 'observers'> & { db: Transaction };

/** Software of the old owner stays as it is now. */
async function give(call: Giving, project: Pick<ProjectRow, 'id' | 'owner_id' | 'forge_id' | 'name'>, owner: bigint) {
  const context = writeContextOf(call);
  await pinOwn(context, project);
  await call.database.holdRight(call.db, 'names', owner);
  const taken = await checkName(
    call.db,
    { table: 'projects', column: 'owner_id', within: owner },
    project.name,
    project.id,
  );
  if (Object.keys(taken).length > 0) throw ApiError.ofFields(taken);
  const given = await orTaken(giveProject(context, project, owner));
  if (!given) throw new ApiError('resource_temporary_unavailable');
  await handOverPolling(call.db, project.id, owner);
  await leaveCollaborators(call.db, project.id, owner);
  await holdRoom(call.database, call.db, 'projects', { account: owner });
  return given;
}

/** An offer ends when the one who made it may no longer give the project away. */
async function loadOffered({ db, caller, params }: InAccount<'project_id'>): Promise<{ offered: ProjectRow }> {
  const named = db.selectFrom('projects').selectAll().where('id', '=', params.project_id);
  const offers = named.where('offered_to_id', '=', caller.id);
  const offered = orNotFound(await offers.executeTakeFirst());
  if (!(await managesProject(db, offered, offered.offered_by_id ?? 0n))) throw new ApiError('not_found');
  return { offered };
}

const path = '/projects/:project_id';

export const routes = [
  projectRoute({
    method: 'POST',
    path: `${path}/transfer`,
    access: 'maintainer',
    scope: 'projects',
    // An organisation's variables would then be open.
    forSomeProjects: false,
    summary:
      'Hand a project over: to an organisation of yours at once, to a person when they accept. What runs goes on; hooks, ' +
      'keys, addresses and collaborators stay',
    body: {
      organisation_id: described(identifier(), 'one of your organisations'),
      email: refined(text('email'), (typed) => (typed === '' ? '' : normalizeEmail(typed))),
    },
    answer: projectRecord,
    audit: {
      action: 'project.handed_over',
      subject: ({ project }) => project,
      details: ({ input }) =>
        input.email === '' ? { to: String(input.organisation_id) } : { offered_to: input.email },
    },
    async verify({ db, caller, project }, { organisation_id: organisation, email = '' }) {
      if ((organisation === undefined) === (email === ''))
        return { [email === '' ? 'email' : 'organisation_id']: [email === '' ? 'is_blank' : 'invalid_format'] };
      if (organisation === undefined) return {};
      const owner = await ownerFor(db, caller, organisation, 'maintainer');
      return owner === project.owner_id ? { organisation_id: ['already_exists'] } : {};
    },
    async handle(call) {
      const { db, vault, caller, project, input } = call;
      const { organisation_id: organisation, email } = input;
      if (organisation !== undefined) {
        const given = await give(call, project, organisation);
        return projectRecordOf({ ...project, ...given, organisation_id: organisation }, vault);
      }
      const person = orNotFound(await findUser(db, email), 'email');
      if (person.kind !== 'user') throw new ApiError('not_found', 'email');
      if (person.id === project.owner_id) throw new ApiError('already_exists', 'email');
      await offerProject({ trx: db }, project.id, { offered_to_id: person.id, offered_by_id: caller.id });
      return projectRecordOf(project, vault);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: `${path}/transfer`,
    access: 'maintainer',
    scope: 'projects',
    summary: 'Take back the offer of a project that nobody has accepted yet',
    answer: destroyedAnswer,
    audit: { action: 'project.offer_withdrawn', subject: ({ project }) => project },
    async handle({ db, project }) {
      await offerProject({ trx: db }, project.id, { offered_to_id: null, offered_by_id: null });
      return destroyed;
    },
  }),
  accountRoute({
    method: 'POST',
    path: `${path}/accept`,
    access: 'users',
    scope: 'projects',
    summary: 'Accept a project that its owner hands over to you',
    answer: projectRecord,
    load: loadOffered,
    audit: { action: 'project.accepted', subject: ({ offered }) => offered },
    async handle(call) {
      const { db, vault, caller, offered } = call;
      await give(call, offered, caller.id);
      const projects = db.selectFrom('projects').selectAll().select(organisationOf).where('id', '=', offered.id);
      return projectRecordOf({ ...(await projects.executeTakeFirstOrThrow()), owned: true }, vault);
    },
  }),
];
