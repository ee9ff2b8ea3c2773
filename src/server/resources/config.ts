import { accountRoute, projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { flag, required, text } from '../../shared/records/fields.ts';
import { configChangeRecord, configRecord, configuredProjectRecord } from '../../shared/records/project.ts';
import { readDocument, withoutValues } from '../../shared/documents/document.ts';
import { projectFields } from '../../shared/documents/kinds.ts';
import { withIdString } from './common.ts';
import { changesOf, configure } from './config-apply.ts';
import { documentOf } from './config-document.ts';
import { bodyFrom, planFor, planningWith, runCalls, type Planning } from './config-plan.ts';
import { readProject, type Present } from './config-present.ts';
import { keepStops } from './config-reuse.ts';

const documentText = () => required(text('document', { lines: 'many' }));

const ofBoth =
  'With dry_run, it only reports what would change, and refuses what it would refuse; variables with from_env are then ' +
  'checked without their contents, which need not be sent. A variable may have a content in the document only together with ' +
  'from_env, or if secret is false. Only this response has the secrets of created hooks and notifications';

/** The document last applied, if the project still matches it. It keeps the order that its author chose. */
async function appliedDocument(planning: Planning, present: Present): Promise<string | undefined> {
  const document = await storedDocument(planning.db, present.id);
  if (document === undefined) return undefined;
  try {
    const wanted = readDocument(document);
    await keepStops(planning.db, present.id, wanted);
    return planFor(planning, present, wanted).length === 0 ? document : undefined;
  } catch (error) {
    // The document names a deleted record.
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

async function storedDocument(db: Queries, projectId: bigint): Promise<string | undefined> {
  const query = db.selectFrom('project_documents').select('document').where('project_id', '=', projectId);
  return (await query.executeTakeFirst())?.document;
}

async function storeDocument(db: Queries, projectId: bigint, document: string): Promise<void> {
  if ((await storedDocument(db, projectId)) === document) return;
  await db
    .insertInto('project_documents')
    .values({ project_id: projectId, document })
    .onConflict((conflict) => conflict.column('project_id').doUpdateSet({ document }))
    .execute();
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/config',
    access: 'maintainer',
    scope: 'projects',
    summary:
      'The settings of a project as one document in JSON, variables without their contents; a token needs the scopes of ' +
      'everything in it',

    answer: configRecord,
    async handle({ db, within, params }) {
      const planning = planningWith({ db, within });
      const present = await readProject(planning, params.project_id);
      return { document: (await appliedDocument(planning, present)) ?? JSON.stringify(documentOf(present)) };
    },
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/config',
    access: 'maintainer',
    scope: 'projects',
    summary:
      'Apply a document to a project, all or nothing. Everything that the document lacks is deleted, which ' +
      `requires prune. ${ofBoth}`,
    body: { document: documentText(), prune: flag(), dry_run: flag() },
    answer: configChangeRecord,
    showsSecrets: true,
    audit: 'nothing', // each change has its own entry
    isTrial: ({ dry_run: isTrial = false }) => isTrial,
    async handle(call) {
      const { db, project, input } = call;
      const { id } = project;
      const { document, prune = false, dry_run: isTrial = false } = input;
      if (document === undefined) throw new ApiError('is_blank', 'document');
      const changed = await configure(call, { document, isTrial, mayDelete: prune || isTrial });
      await storeDocument(db, id, withoutValues(document));
      return changed;
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/projects/config',
    access: 'users',
    scope: 'projects',
    summary: `Create a project from a document, all or nothing. ${ofBoth}`,
    body: { document: documentText(), dry_run: flag() },
    creates: 'projects',
    answer: configuredProjectRecord,
    showsSecrets: true,
    audit: 'nothing', // each change has its own entry
    isTrial: ({ dry_run: isTrial = false }) => isTrial,
    async handle({ db, database, within, input: { document, dry_run: isTrial } }) {
      const wanted = readDocument(document);
      const project = (await within('POST /projects', {}, bodyFrom(projectFields, wanted.entry))) as MadeProject;
      const planning = planningWith({ db, within, isTrial });
      const calls = planFor(planning, await readProject(planning, project.id), wanted);
      await runCalls(db, database, project.id, calls);
      await storeDocument(db, project.id, withoutValues(document));
      const made = { action: 'create', what: `project ${project.name}`, fields: [] };
      return {
        ...withIdString('id', project.id),
        applied: !isTrial,
        changes: [made, ...changesOf(calls, isTrial)],
        ssh_public_key: project.ssh_public_key,
      };
    },
  }),
];

interface MadeProject {
  id: bigint;
  name: string;
  ssh_public_key: string;
}
