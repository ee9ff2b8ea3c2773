import { providerNames } from '../domain/forge-providers.ts';
import type { Static } from 'typebox';
import { answersOf, grouped, oneOf, required, text } from './fields.ts';
import { isWebAddress } from './forms.ts';
import { dateTime, ownId, integer, listOf, nullable, object, record, stateOf, string, idWithString } from './schema.ts';
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
/** With its secret, which only the answer to its creation has. */
export const createdNotificationRecord = record('CreatedNotification', { ...own, secret: string });

/** It becomes part of a path, so no segment of it can be `.` or `..`. */
const repositoryForm = /^(?:\d{1,19}|(?!\.{1,2}\/)[\w.{}~-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.{}~-]+)+)$/;

/** A forge that gets the status of each commit's suites. */
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

/** The fields of a delivery, for every kind of receiver. */
const deliveryFields = {
  ...ownId,
  type: string,
  state: stateOf(deliveryStates),
  created_at: dateTime,
  attempts: listOf(
    object({ status: nullable(integer), duration_ms: integer, answer: string, error: string, created_at: dateTime }),
  ),
};
export const deliveryRecord = record('Delivery', deliveryFields);
export type Delivery = Static<typeof deliveryRecord>;

/** The report that was sent to a forge, with the result of sending it. */
export const statusDeliveryRecord = record('StatusDelivery', {
  ...deliveryFields,
  ref: string,
  context: string,
  build_state: string,
  description: string,
});
export type StatusDelivery = Static<typeof statusDeliveryRecord>;
