import { accountRoute, projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { flag, required, text } from '../../shared/records/fields.ts';
import {
  configChangeRecord,
  configRecord,
  configuredProjectRecord,
  type ConfigChange,
} from '../../shared/records/project.ts';
import { holdWaitingBuilds } from '../lifecycle/builds.ts';
import { cancelWaitingBuilds } from '../lifecycle/deleted-suites.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { readDocument, withoutValues } from '../../shared/documents/document.ts';
import {
  areVariables,
  isSame,
  isTexts,
  projectFields,
  sections,
  type DocumentField,
  type Entry,
  type Kind,
  type ListedRecord,
  type Value,
} from '../../shared/documents/kinds.ts';
import { withIdString, writeContextOf } from './common.ts';
import { bodyFrom, planFor, planningWith, runCalls, type Planning } from './config-plan.ts';
import { readProject, type Present } from './config-present.ts';
import { keepStops } from './config-reuse.ts';
import type { PlannedCall } from './planned-call.ts';

const documentText = () => required(text('document', { lines: 'many' }));

const ofBoth =
  'With dry_run, it only reports what would change, and refuses what it would refuse; variables with from_env are then ' +
  'checked without their contents, which need not be sent. A variable may have a content in the document only together with ' +
  'from_env, or if secret is false. Only this response has the secrets of created hooks and notifications';

function withoutDefaults(fields: readonly DocumentField[], entry: Entry): Record<string, unknown> {
  const stated = fields.filter(
    ({ name, isRequired, fallback, isImplied }) =>
      isRequired || !(isSame(entry[name], fallback) || isImplied?.(entry) === true),
  );
  return Object.fromEntries(stated.map((field) => [field.name, withoutRecordDefaults(field, entry[field.name])]));
}

function withoutRecordDefaults({ read, field }: DocumentField, value: Value | undefined): unknown {
  if (!read || typeof value !== 'object' || value === null || isTexts(value)) return value;
  const required = field?.schema.items?.required ?? [];
  return value.map((record) => {
    const isStated = (name: string): boolean => {
      const others = Object.fromEntries(Object.entries(record).filter(([other]) => other !== name));
      return required.includes(name) || !isSame(readOrNone(read, [others]), [record]);
    };
    return Object.fromEntries(Object.entries(record).filter(([name]) => isStated(name)));
  });
}

/** Undefined if the record is refused, because another of its fields requires a missing field. */
function readOrNone(read: NonNullable<DocumentField['read']>, records: readonly ListedRecord[]): Value | undefined {
  try {
    return read(records);
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** How a document gives a variable's value: by its source, or in the document if it is no secret, or else unchanged. */
function sourceOf(environment: unknown, { secret, content }: Readonly<Record<string, unknown>>): object {
  if (environment !== undefined) return { content: undefined };
  return secret === false ? { content } : { content: undefined, keep: true };
}

function documentOf({ entry, children }: Present): object {
  return { ...withoutDefaults(projectFields, entry), ...partsOf(sections, children) };
}

function partsOf(kinds: readonly Kind[], children: Present['children']): object {
  const parts = kinds.map((kind) => [kind.section, children[kind.section]?.map((one) => partOf(kind, one)) ?? []]);
  return Object.fromEntries(parts.filter(([, list]) => list?.length !== 0)) as object;
}

function partOf(kind: Kind, { entry, children, dependencies }: Present): object {
  const stated = withoutDefaults(kind.fields, entry);
  return {
    ...stated,
    ...(areVariables(kind) && sourceOf(stated.from_env, entry)),
    ...(dependencies.length > 0 && { dependencies: dependencies.map(({ name }) => name) }),
    ...partsOf(kind.children ?? [], children),
  };
}

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
      const { db, database, within, project, input } = call;
      const { id } = project;
      const { document, prune = false, dry_run: isTrial = false } = input;
      if (document === undefined) throw new ApiError('is_blank', 'document');
      const wanted = readDocument(document);
      const planning = planningWith({ db, within, isTrial });
      await keepStops(db, id, wanted);
      const calls = planFor(planning, await readProject(planning, id), wanted);
      if (!prune && !isTrial && calls.some(({ action }) => action === 'delete'))
        throw new ApiError('is_blank', 'prune');
      await holdForCalls(writeContextOf(call), project, calls);
      await cancelWaitingBuilds(writeContextOf(call), id, recordsIn(calls, 'suites', isDeletion));
      await runCalls(db, database, id, calls);
      await storeDocument(db, id, withoutValues(document));
      return { applied: !isTrial, changes: changesOf(calls, isTrial) };
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

/** Takes the locks of all calls first, in the order of db/lock-order.ts, because the calls run in another order. */
async function holdForCalls(
  context: WriteContext,
  project: Pick<ProjectRow, 'owner_id'>,
  calls: readonly PlannedCall[],
): Promise<void> {
  const { db, trx } = context;
  const hooks = recordsIn(calls, 'hooks');
  if (hooks.length > 0)
    await db.locked(trx.selectFrom('hooks').select('id').where('id', 'in', hooks).orderBy('id'), 'hooks').execute();
  const suites = recordsIn(calls, 'suites', (one) => isDeletion(one) || one.fields.some(({ name }) => name === 'tags'));
  await holdWaitingBuilds(context, { accountId: project.owner_id, suites });
}

const isDeletion = ({ action }: PlannedCall): boolean => action === 'delete';

function recordsIn(
  calls: readonly PlannedCall[],
  section: string,
  which: (one: PlannedCall) => boolean = () => true,
): bigint[] {
  return calls.flatMap((one) => (one.section === section && which(one) ? (one.record ?? []) : []));
}

interface MadeProject {
  id: bigint;
  name: string;
  ssh_public_key: string;
}

function changesOf(calls: readonly PlannedCall[], isTrial = false): ConfigChange['changes'] {
  return calls.map(({ action, what, fields, once }) => ({ action, what, fields, ...(!isTrial && once) }));
}
