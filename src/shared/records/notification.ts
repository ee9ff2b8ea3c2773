import type { Static } from 'typebox';
import type { FieldErrors } from '../errors.ts';
import { providerNames } from '../domain/forge-providers.ts';
import { answersOf, described, grouped, oneOf, required, text, type Field, type ValuesOf } from './fields.ts';
import { globs, isWebAddress, recipients } from './forms.ts';
import {
  dateTime,
  ownId,
  integer,
  listOf,
  nullable,
  nullableIdWithString,
  object,
  optional,
  record,
  stateOf,
  string,
  idWithString,
} from './schema.ts';
import { deliveryStates } from './states.ts';

/** Each type needs all of its own options, and has no others. */
export const optionsOfType = {
  webhook: ['url'],
  email: ['to'],
  slack: ['url'],
  mattermost: ['url'],
  discord: ['url'],
  teams: ['url'],
  matrix: ['homeserver', 'room', 'token'],
} as const;
export type ReceiverType = keyof typeof optionsOfType;
const receiverTypes = Object.keys(optionsOfType) as [ReceiverType, ...ReceiverType[]];

const changes = ['all', 'failures', 'changes'] as const;
type Wanted = (typeof changes)[number];

/** Blank for the default of the type. */
const on: Field<Wanted | ''> = described(
  { ...(oneOf(changes) as Field<Wanted | ''>), fallback: '' },
  'what is sent: all; failures; or changes, which are a failure after a pass and a pass after a failure. ' +
    'The default is all for a webhook, and changes for the other types',
);

/** A webhook gets all events of all branches. The other types get a message when the default branch breaks or is mended. */
export const wantedBy = ({ name, on: wanted }: { name: string; on: string }): Wanted =>
  (wanted as Wanted | '') || (name === 'webhook' ? 'all' : 'changes');

export const newsFields = {
  notifiable_type: required(oneOf(['build', 'dependency'])),
  name: required(oneOf(receiverTypes)),
  on,
  branches: globs('branches; without any all branches for a webhook, and the default branch for the other types'),
};
export const notificationOptions = {
  url: text('webAddress', { check: isWebAddress }),
  to: recipients,
  homeserver: text('webAddress', { check: (value) => isWebAddress(value) && !/[?#]/.test(value) }),
  room: text('name', { pattern: /^[!#]\S+$/, description: 'a room of Matrix: its identifier or its alias' }),
  token: text('forgeToken', { description: 'the access token of the user of Matrix who writes' }),
};
export const notificationFields = { ...newsFields, ...grouped('options', notificationOptions) };
export type Options = { [Name in keyof typeof notificationOptions]?: string };

type Sent = Partial<ValuesOf<typeof notificationFields>>;

/** The options after a change that names some of them. */
export function optionsAfter(type: ReceiverType, sent: Sent, present: Options = {}): Options {
  return Object.fromEntries(optionsOfType[type].map((name) => [name, sent[`options[${name}]`] ?? present[name] ?? '']));
}

export function checkOptions(type: ReceiverType, sent: Sent, present?: Options): FieldErrors {
  const own = optionsAfter(type, sent, present);
  const errors: FieldErrors = {};
  for (const name of Object.keys(notificationOptions) as (keyof Options)[]) {
    const isForeign = own[name] === undefined && (sent[`options[${name}]`] ?? '') !== '';
    if (own[name] === '') errors[`options[${name}]`] = ['is_blank'];
    if (isForeign) errors[`options[${name}]`] = ['invalid_format'];
  }
  return errors;
}

const { url, to, homeserver, room, token } = answersOf(notificationOptions);
const { name, ...chosen } = answersOf(newsFields);
const own = {
  ...ownId,
  name,
  options: object({
    url: optional(url),
    to: optional(to),
    homeserver: optional(homeserver),
    room: optional(room),
    token: optional(token),
  }),
  ...chosen,
};
export const notificationRecord = record('Notification', { ...own, ...idWithString('project_id') });
export type Notification = Static<typeof notificationRecord>;
/** Only the response to its creation has the secret. It is blank if nothing is signed. */
export const createdNotificationRecord = record('CreatedNotification', { ...own, secret: string });

/** It becomes part of a path, so no segment can be `.` or `..`. */
const repositoryForm = /^(?:\d{1,19}|(?!\.{1,2}\/)[\w.{}~-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.{}~-]+)+)$/;

export const targetFields = {
  provider: required(oneOf(providerNames)),
  api_url: text('webAddress', { check: (value) => isWebAddress(value) && !/[?#]/.test(value) }),
  repository: required(
    text('repository', { pattern: repositoryForm, description: 'owner/name; for GitLab a path or number' }),
  ),
};
export const statusTargetRecord = record('StatusTarget', {
  ...ownId,
  ...idWithString('project_id'),
  ...answersOf(targetFields),
});
export type StatusTarget = Static<typeof statusTargetRecord>;

const deliveryFields = {
  ...ownId,
  type: string,
  ...nullableIdWithString('build_id'),
  suite_name: string,
  variant: string,
  ...nullableIdWithString('commit_id'),
  commit_ref: string,
  state: stateOf(deliveryStates),
  created_at: dateTime,
  attempts: listOf(
    object({ status: nullable(integer), duration_ms: integer, answer: string, error: string, created_at: dateTime }),
  ),
};
export const deliveryRecord = record('Delivery', deliveryFields);
export type Delivery = Static<typeof deliveryRecord>;

export const receiverRecord = record('Receiver', {
  failing_since: nullable(dateTime),
  status: nullable(integer),
  answer: string,
  error: string,
  tries: integer,
  next_try_at: nullable(dateTime),
  waiting: integer,
});
export type Receiver = Static<typeof receiverRecord>;

export const statusDeliveryRecord = record('StatusDelivery', {
  ...deliveryFields,
  ref: string,
  context: string,
  build_state: string,
  description: string,
});
export type StatusDelivery = Static<typeof statusDeliveryRecord>;
