import { most, mostRecords } from '../domain/bounds.ts';
import { strategyFields } from '../records/deploy.ts';
import { groupOf, type Raw } from '../records/raw.ts';
import { columnName, described, Digits, pathOf, type Field, type FieldSet } from '../records/fields.ts';
import { notificationFields } from '../records/notification.ts';
import { projectFields as projectRecordFields } from '../records/project.ts';
import { ruleFields, suiteFields, variableFields, type Suite } from '../records/suite.ts';
import { hookFields, scheduleFields } from '../records/trigger.ts';

/**
 * The parts of a project, as sections of one document. An entry has the fields of its record (records/), so a new field
 * of a record is in the document as well.
 */
export interface Kind {
  section: string;
  /** Its name for people. */
  what: string;
  /** The path of its list. */
  path: `/${string}`;
  param: string;
  /** The fields that identify an entry. */
  key: readonly string[];
  /** Whether an entry with another key may be a changed one: this holds for entries without a name. */
  isNameless?: boolean;
  /** Whether the answer of the list lacks fields of the record. */
  isShort?: boolean;
  /** How many of them its parent may have. */
  most: number;
  fields: readonly DocumentField[];
  children?: readonly Kind[];
}

/** null is for a setting that says neither yes nor no. */
export type Value = string | number | boolean | null | readonly (string | ListedRecord)[];
/** An entry of a list of records, such as a step of a suite. */
export type ListedRecord = Readonly<Record<string, string | number | boolean | readonly unknown[]>>;
export type Entry = Readonly<Record<string, Value>>;

/** A document that was read: every entry with its fields, in the form of the API, and the entries in it. */
export interface Node {
  entry: Entry;
  /** Its path in the document, for errors. */
  at: string;
  children: Readonly<Record<string, readonly Node[]>>;
  /** The names of a suite's dependencies. */
  dependencies: readonly string[];
}

/** A field of the document: `options[url]` is `url`. */
export interface DocumentField {
  name: string;
  /** Its name in a body. */
  sent: string;
  isRequired: boolean;
  fallback: Value;
  /** The field of the API; undefined if only documents have it. */
  field?: Field<unknown>;
  /** Reads a list of records, and fills in their defaults. Other fields are taken unchanged. */
  read?: (given: unknown) => Value;
  /** Whether no route takes it: only documents have it. */
  isDocumentOnly?: boolean;
  /** Whether it is set by a step of its own. */
  isApart?: boolean;
  /** Whether what else its entry says makes it what it is, so that it need not be said. */
  isImplied?: (entry: Entry) => boolean;
  /** Its value in a record of the API, where that is not the value of the field that is sent. */
  valueIn?: (record: object) => Value;
}

/** A value of a document in the form of a request body. */
export function rawOf(given: unknown): Raw {
  if (typeof given === 'number') return new Digits(String(given));
  if (Array.isArray(given)) return given.map(rawOf);
  if (typeof given === 'object' && given !== null)
    return groupOf(Object.fromEntries(Object.entries(given).map(([name, value]) => [name, rawOf(value)])));
  return typeof given === 'bigint' ? String(given) : (given as Raw);
}

const isAddressImplied = ({ repository_url: repository, clone_url: clone }: Entry): boolean => repository === clone;

function fieldsIn(body: FieldSet): DocumentField[] {
  return Object.entries(body).map(([sent, field]) => ({
    name: columnName(sent),
    sent,
    isRequired: field.required,
    fallback: field.fallback as Value,
    field,
    ...(columnName(sent) === 'clone_url' && { isImplied: isAddressImplied }),
    ...(field.schema.items?.properties && { read: (given: unknown) => field.parse(rawOf(given)) as Value }),
  }));
}

export const projectFields = fieldsIn(projectRecordFields);

/** The name of the variable, in the environment of the person who applies the document, that has the content. */
const source: DocumentField = {
  name: 'from_env',
  sent: 'from_env',
  isRequired: false,
  fallback: '',
  isDocumentOnly: true,
};

const variablesAt = (path: Kind['path']): Kind => ({
  section: 'variables',
  what: 'variable',
  path,
  param: 'environment_variable_id',
  most: mostRecords.environment_variables.most,
  fields: [...fieldsIn(variableFields), source],
  key: ['name'],
});

/** The variables of the project. Suites have their own. */
const variables = variablesAt('/projects/:project_id/environment_variables');

export function areVariables({ section }: Kind): boolean {
  return section === variables.section;
}

const suiteParts: readonly Kind[] = [
  {
    section: 'rules',
    what: 'rule',
    path: '/projects/:project_id/suites/:suite_id/rules',
    param: 'rule_id',
    most: mostRecords.suite_rules.most,
    fields: fieldsIn(ruleFields),
    key: ['subject', 'operator', 'value'],
    isNameless: true,
  },
  variablesAt('/projects/:project_id/suites/:suite_id/environment_variables'),
];

/** The services of a suite: an identifier is text, which every number in a document could not hold. */
function servicesIn(record: object): Value {
  const { services } = record as Pick<Suite, 'services'>;
  return services.map(({ dependency_id_str: id, ...service }) => ({ ...service, dependency_id: id }));
}

/** The name of the suite whose files a suite begins with, or blank. */
export function filesFromOf(record: object): string {
  const { needs, files_from_id: from } = record as Pick<Suite, 'needs' | 'files_from_id'>;
  return needs.find(({ id }) => id === from)?.name ?? '';
}

export const suites: Kind = {
  section: 'suites',
  what: 'suite',
  path: '/projects/:project_id/suites',
  param: 'suite_id',
  most: most.suitesInDocument,
  // In a document, suites need others by their names (config-needs.ts).
  fields: fieldsIn(suiteFields).map((field) => {
    if (field.name === 'needs') return { ...field, isApart: true };
    if (field.name === 'services') return { ...field, valueIn: servicesIn };
    return field.name === 'files_from_id'
      ? { ...field, name: 'files_from', fallback: '', isApart: true, valueIn: filesFromOf }
      : field;
  }),
  key: ['name'],
  children: suiteParts,
};

export const strategies: Kind = {
  section: 'deploy_strategies',
  what: 'deploy strategy',
  path: '/projects/:project_id/deploy_strategies',
  param: 'deploy_strategy_id',
  most: mostRecords.deploy_strategies.most,
  // In a document, a suite is named (resources/config-strategies.ts).
  fields: fieldsIn(strategyFields).map((field) =>
    field.name === 'suite_id'
      ? { ...field, name: 'suite', fallback: '', field: described(strategyFields.name, 'a suite that is manual') }
      : field,
  ),
  key: ['name'],
  isShort: true,
};

const hooks: Kind = {
  section: 'hooks',
  what: 'hook',
  path: '/projects/:project_id/hooks',
  param: 'hook_id',
  most: mostRecords.hooks.most,
  fields: fieldsIn(hookFields),
  key: ['provider'],
  isNameless: true,
};

const schedules: Kind = {
  section: 'schedules',
  what: 'schedule',
  path: '/projects/:project_id/schedules',
  param: 'schedule_id',
  most: mostRecords.schedules.most,
  fields: fieldsIn(scheduleFields),
  key: ['cron', 'time_zone', 'commit_ref'],
  isNameless: true,
};

const notifications: Kind = {
  section: 'notifications',
  what: 'notification',
  path: '/projects/:project_id/notifications',
  param: 'notification_id',
  most: mostRecords.notifications.most,
  fields: fieldsIn(notificationFields),
  key: ['notifiable_type', 'url'],
  isNameless: true,
};

export const sections: readonly Kind[] = [variables, suites, strategies, hooks, schedules, notifications];

/** In the order in which transactions take their locks (db/lock-order.ts): some come after the project itself. */
export const beforeProject: readonly Kind[] = [variables, suites, strategies, hooks];
export const afterProject: readonly Kind[] = [notifications, schedules];

/** The value of a field in a record of the API. */
export function valueIn(record: object, { sent, read, valueIn: own }: DocumentField): Value {
  if (own) return own(record);
  let at: unknown = record;
  for (const part of pathOf(sent)) at = (at as Record<string, unknown>)[part];
  if (!Array.isArray(at) || read) return at as Value;
  // A request body has identifiers, a document has names.
  return at.map((item: string | { name: string }) => (typeof item === 'string' ? item : item.name));
}

export function isSame(a: Value | undefined, b: Value | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
