import { most, mostRecords } from '../domain/bounds.ts';
import { strategyFields } from '../records/deploy.ts';
import { groupOf, type Raw } from '../records/raw.ts';
import {
  columnName,
  described,
  Digits,
  oneOf,
  pathOf,
  required,
  type Field,
  type FieldSet,
} from '../records/fields.ts';
import { include } from '../records/include.ts';
import { notificationFields, wantedBy } from '../records/notification.ts';
import { projectFields as projectRecordFields } from '../records/project.ts';
import { ruleFields, suiteFields, variableFields, type Suite } from '../records/suite.ts';
import { hookFields, scheduleFields } from '../records/trigger.ts';

/** The parts of a project, as sections of one document. Entries have the fields of their records (records/). */
export interface Kind {
  section: string;
  what: string;
  path: `/${string}`;
  param: string;
  key: readonly string[];
  /** An entry with another key may be a changed one. True for entries without a name. */
  isNameless?: boolean;
  most: number;
  fields: readonly DocumentField[];
  children?: readonly Kind[];
}

/** null is an unset flag. */
export type Value = string | number | boolean | null | readonly (string | ListedRecord)[] | Texts;
/** Texts by names, such as the variables of a schedule. */
export type Texts = Readonly<Record<string, string>>;

export function isTexts(value: Value): value is Texts {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An entry of a list of records, such as a step of a suite. */
export type ListedRecord = Readonly<Record<string, string | number | boolean | readonly unknown[]>>;
export type Entry = Readonly<Record<string, Value>>;

/** An entry that was read, with its fields in the API's form. */
export interface Node {
  entry: Entry;
  at: string;
  children: Readonly<Record<string, readonly Node[]>>;
  dependencies: readonly string[];
}

/** `options[url]` becomes `url`. */
export interface DocumentField {
  name: string;
  /** Its name in a body. */
  sent: string;
  isRequired: boolean;
  fallback: Value;
  field?: Field<unknown>;
  /** Reads a list of records and adds their defaults, or texts by names. Other fields stay unchanged. */
  read?: (given: unknown) => Value;
  isDocumentOnly?: boolean;
  isApart?: boolean;
  /** A text, or a list of texts. */
  takesList?: boolean;
  /** Other fields of the entry determine its value, so it may be omitted. */
  isImplied?: (entry: Entry) => boolean;
  /** Its value in a record of the API, if the record differs from the sent field. */
  valueIn?: (record: object) => Value;
}

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
    ...((field.schema.items?.properties || field.schema.type === 'object') && {
      read: (given: unknown) => field.parse(rawOf(given)) as Value,
    }),
  }));
}

export const projectFields = fieldsIn(projectRecordFields);

export const [includeField] = fieldsIn({ include }) as [DocumentField];

/** Names a variable in the environment of the user who applies the document. */
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

/** An identifier is text here, because numbers in a document could lose digits. */
function servicesIn(record: object): Value {
  const { services } = record as Pick<Suite, 'services'>;
  return services.map(({ dependency_id_str: id, ...service }) => ({ ...service, dependency_id: id }));
}

/** The suites whose files a suite takes, by name: one instead of the checkout, or a list beside it. */
export function filesFromOf(record: object): string | string[] {
  const { needs, files_from_id: from, files_from_name: name, files_from: list } = record as Suite;
  if (list.length > 0) return list.map((one) => one.name);
  return name === '' ? (needs.find(({ id }) => id === from)?.name ?? '') : name;
}

export function filesFromIn({ files_from: from = '' }: Entry): string | readonly string[] {
  return Array.isArray(from) ? (from as readonly string[]) : typeof from === 'string' ? from : '';
}

export const suites: Kind = {
  section: 'suites',
  what: 'suite',
  path: '/projects/:project_id/suites',
  param: 'suite_id',
  most: most.suitesInDocument,
  // In a document, suites need others by their names (config-needs.ts).
  fields: fieldsIn(suiteFields).flatMap((field) => {
    if (field.name === 'needs') return { ...field, isApart: true };
    if (field.name === 'services') return { ...field, valueIn: servicesIn };
    if (field.name === 'files_from_id' || field.name === 'files_from_name') return []; // the document has one field
    return field.name === 'files_from'
      ? { ...field, fallback: '', isApart: true, takesList: true, valueIn: filesFromOf }
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
  // In a document, a suite is named (resources/config-plan.ts).
  fields: fieldsIn(strategyFields).map((field) =>
    field.name === 'suite_id'
      ? { ...field, name: 'suite', fallback: '', field: described(strategyFields.name, 'a suite that is manual') }
      : field,
  ),
  key: ['name'],
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

export const schedules: Kind = {
  section: 'schedules',
  what: 'schedule',
  path: '/projects/:project_id/schedules',
  param: 'schedule_id',
  most: mostRecords.schedules.most,
  fields: fieldsIn(scheduleFields),
  key: ['cron', 'time_zone', 'commit_ref'],
  isNameless: true,
};

/** Notifications to chats are not in documents: their addresses and tokens are secrets. */
const inDocuments = ['webhook', 'email'] as const;
const {
  'options[homeserver]': _homeserver,
  'options[room]': _room,
  'options[token]': _token,
  ...documentedFields
} = notificationFields;

export function isDocumented({ name }: Readonly<Record<string, unknown>>): boolean {
  return inDocuments.includes(name as never);
}

const isDefaultChoice = ({ name, on }: Entry): boolean =>
  on === wantedBy({ name: name === 'webhook' ? name : '', on: '' });

export const notifications: Kind = {
  section: 'notifications',
  what: 'notification',
  path: '/projects/:project_id/notifications',
  param: 'notification_id',
  most: mostRecords.notifications.most,
  fields: fieldsIn({ ...documentedFields, name: required(oneOf(inDocuments)) }).map((field) =>
    field.name === 'on' ? { ...field, isImplied: isDefaultChoice } : field,
  ),
  key: ['notifiable_type', 'url', 'to'],
  isNameless: true,
};

export const sections: readonly Kind[] = [variables, suites, strategies, hooks, schedules, notifications];

/** In the order in which transactions take their locks (db/lock-order.ts). */
export const beforeProject: readonly Kind[] = [variables, suites, strategies, hooks];
export const afterProject: readonly Kind[] = [notifications, schedules];

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
