import type { Route } from '../api/route.ts';
import type { FieldSet } from '../http/fields.ts';
import type { JsonSchema } from '../http/schema.ts';

/**
 * What a project consists of, as sections of one document. What fields an entry has, and what they are without being said,
 * comes from the routes: a field that a resource gains is in the document as well.
 */
export interface Kind {
  section: string;
  /** For people. */
  what: string;
  /** The path of its list. */
  path: `/${string}`;
  param: string;
  /** The fields by which an entry is known again. */
  key: readonly string[];
  /** Whether an entry with another key may be one that was changed: those that have no name. */
  isNameless: boolean;
  /** Whether the list leaves out fields that the record has. */
  isShort?: boolean;
  children?: readonly Kind[];
}

export type Value = string | number | boolean | readonly string[];
export type Entry = Readonly<Record<string, Value>>;

const suiteParts: readonly Kind[] = [
  {
    section: 'rules',
    what: 'rule',
    path: '/projects/:project_id/suites/:suite_id/rules',
    param: 'rule_id',
    key: ['subject', 'operator', 'value'],
    isNameless: true,
  },
  {
    section: 'variables',
    what: 'variable',
    path: '/projects/:project_id/suites/:suite_id/environment_variables',
    param: 'environment_variable_id',
    key: ['name'],
    isNameless: false,
  },
];

export const suites: Kind = {
  section: 'suites',
  what: 'suite',
  path: '/projects/:project_id/suites',
  param: 'suite_id',
  key: ['name'],
  isNameless: false,
  children: suiteParts,
};

/** In the order in which transactions take their locks: notifications come after the project itself. */
export const beforeProject: readonly Kind[] = [
  suites,
  {
    section: 'deploy_strategies',
    what: 'deploy strategy',
    path: '/projects/:project_id/deploy_strategies',
    param: 'deploy_strategy_id',
    key: ['name'],
    isNameless: false,
    isShort: true,
  },
  {
    section: 'hooks',
    what: 'hook',
    path: '/projects/:project_id/hooks',
    param: 'hook_id',
    key: ['provider'],
    isNameless: true,
  },
  {
    section: 'schedules',
    what: 'schedule',
    path: '/projects/:project_id/schedules',
    param: 'schedule_id',
    key: ['cron', 'time_zone', 'commit_ref'],
    isNameless: true,
  },
];

export const afterProject: readonly Kind[] = [
  {
    section: 'notifications',
    what: 'notification',
    path: '/projects/:project_id/notifications',
    param: 'notification_id',
    key: ['notifiable_type', 'url'],
    isNameless: true,
  },
];

export const sections: readonly Kind[] = [...beforeProject, ...afterProject];

/** A field of the document: `options[url]` is `url`, `tags[]` is `tags`. */
export interface DocumentField {
  name: string;
  /** Its name in a body. */
  sent: string;
  isRequired: boolean;
  fallback: Value;
}

export function fieldsIn(body: FieldSet): DocumentField[] {
  return Object.entries(body).map(([sent, { required, schema }]) => ({
    name: sent.replace(/\[\]$/, '').replace(/^\w+\[(\w+)\]$/, '$1'),
    sent,
    isRequired: required,
    fallback: fallbackOf(schema),
  }));
}

function fallbackOf(schema: JsonSchema): Value {
  if (schema.default !== undefined) return schema.default as Value;
  if (schema.type === 'array') return [];
  if (schema.type === 'boolean') return false;
  return schema.type === 'integer' ? 0 : (schema.enum?.[0] ?? '');
}

/** The value of a field in a record of the API. */
export function valueIn(record: object, { sent }: DocumentField): Value {
  const path = sent.replace(/\[\]$/, '').split(/[[\]]+/);
  let at: unknown = record;
  for (const part of path.filter((name) => name !== '')) at = (at as Record<string, unknown>)[part];
  return at as Value;
}

export function isSame(a: Value | undefined, b: Value | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** The fields that the create route of a kind takes. */
export function bodyOf(routes: readonly Route[], kind: Kind): DocumentField[] {
  const route = routes.find(({ method, path }) => method === 'POST' && path === kind.path);
  if (!route?.body) throw new Error(`nothing creates a ${kind.what}`);
  return fieldsIn(route.body);
}
