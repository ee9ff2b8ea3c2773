import { projectRoute, type Route } from '../api/route.ts';
import { ApiError } from '../errors.ts';
import { flag, required, text } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { readDocument } from './config-document.ts';
import {
  bodyOf,
  fieldsIn,
  isSame,
  sections,
  suites,
  type DocumentField,
  type Entry,
  type Kind,
} from './config-kinds.ts';
import { entryOf, planFor, recordsOf } from './config-plan.ts';

/** The settings of a project as one document, which is read and written whole. */

const answer = schema.record({ document: schema.string });

const change = schema.record({
  action: schema.string,
  what: schema.string,
  fields: schema.listOf(schema.record({ name: schema.string, from: schema.string, to: schema.string })),
});
const changedAnswer = schema.record({ applied: schema.boolean, changes: schema.listOf(change) });

/** What is as it would be without being said is left out. */
function saidOf(fields: readonly DocumentField[], entry: Entry): Record<string, unknown> {
  const said = fields.filter(({ name, isRequired, fallback }) => isRequired || !isSame(entry[name], fallback));
  return Object.fromEntries(said.map(({ name }) => [name, entry[name]]));
}

export function configRoutes(others: readonly Route[]): Route[] {
  const cached = new Map<Kind, readonly DocumentField[]>();
  const fieldsOf = (kind: Kind): readonly DocumentField[] => {
    const known = cached.get(kind) ?? bodyOf(others, kind);
    cached.set(kind, known);
    return known;
  };
  const project = others.find(({ method, path }) => method === 'PUT' && path === '/projects/:project_id');
  const projectFields = fieldsIn(project?.body ?? {});
  return [
    projectRoute({
      method: 'GET',
      path: '/projects/:project_id/config',
      access: 'users',
      scope: 'projects',
      summary:
        'The settings of a project as one document in JSON, variables without their contents; a token needs the scopes of ' +
        'all that is in it',
      goesByTheClock: true,
      answer,
      async handle(call) {
        const { within, params } = call;
        const list = async (kind: Kind, place: Readonly<Record<string, bigint>>): Promise<object[]> => {
          const entries: object[] = [];
          for (const record of await recordsOf(within, kind, place)) {
            const entry = { ...saidOf(fieldsOf(kind), entryOf(fieldsOf(kind), record)) };
            if (kind.section === 'variables') Object.assign(entry, { content: undefined, keep: true });
            const own = { ...place, [kind.param]: record.id };
            if (kind === suites) {
              const used = (await within(`GET ${suites.path}/:suite_id/dependencies`, own)) as { name: string }[];
              if (used.length > 0) entry.dependencies = used.map(({ name }) => name);
            }
            for (const part of kind.children ?? []) {
              const parts = await list(part, own);
              if (parts.length > 0) entry[part.section] = parts;
            }
            entries.push(entry);
          }
          return entries;
        };
        const record = (await within('GET /projects/:project_id', params)) as object;
        const document = saidOf(projectFields, entryOf(projectFields, record));
        for (const kind of sections) {
          const entries = await list(kind, params);
          if (entries.length > 0) document[kind.section] = entries;
        }
        return { document: JSON.stringify(document) };
      },
    }),
    projectRoute({
      method: 'PUT',
      path: '/projects/:project_id/config',
      access: 'users',
      scope: 'projects',
      summary:
        'Make a project what a document says, all of it or nothing; with dry_run only tell what would change. What the ' +
        'document does not have is deleted, and that is refused without prune',
      body: { document: required(text({ max: 4 * 1024 * 1024, lines: 'many' })), prune: flag(), dry_run: flag() },
      answer: changedAnswer,
      audit: 'nothing', // each change has its own entry
      async handle({ within, project: { id }, input: { document, prune = false, dry_run: isDry = false } }) {
        if (document === undefined) throw new ApiError('is_blank', 'document');
        const wanted = readDocument(document, projectFields, fieldsOf);
        const steps = await planFor({ within, fieldsOf, projectFields }, id, wanted);
        const changes = steps.map(({ action, what, fields }) => ({ action, what, fields }));
        if (isDry) return { applied: false, changes };
        if (!prune && steps.some(({ action }) => action === 'delete')) throw new ApiError('is_blank', 'prune');
        for (const step of steps) await step.run();
        return { applied: true, changes };
      },
    }),
  ];
}
