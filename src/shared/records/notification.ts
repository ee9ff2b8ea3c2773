import { providerNames } from '../domain/forge-providers.ts';
import type { Static } from 'typebox';
import { answersOf, grouped, oneOf, required, text } from './fields.ts';
import { isWebAddress } from './forms.ts';
import {
  dateTime,
  ownId,
  integer,
  listOf,
  nullable,
  nullableIdWithString,
  object,
  record,
  stateOf,
  string,
  idWithString,
} from './schema.ts';
import { deliveryStates } from './states.ts';

export const webhookFields = {
  notifiable_type: required(oneOf(['build', 'dependency'])),
  name: required(oneOf(['webhook'])),
};
export const notificationOptions = { url: required(text('webAddress', { check: isWebAddress })) };
export const notificationFields = { ...webhookFields, ...grouped('options', notificationOptions) };
const { name, notifiable_type } = answersOf(webhookFields);
const own = { ...ownId, name, options: object(answersOf(notificationOptions)), notifiable_type };
export const notificationRecord = record('Notification', { ...own, ...idWithString('project_id') });
export type Notification = Static<typeof notificationRecord>;
/** Only the response to its creation has the secret. */
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
