import type { Static } from 'typebox';
import { dateTime, idTwin, integer, listOf, nullable, object, record, stateOf, string, twin } from './schema.ts';
import { deliveryStates } from './states.ts';

const ownFields = { ...idTwin, name: string, options: object({ url: string }), notifiable_type: string };
export const notificationRecord = record('Notification', { ...ownFields, ...twin('project_id') });
export type Notification = Static<typeof notificationRecord>;
/** With its secret, which only the answer that makes it has. */
export const createdNotificationRecord = record('CreatedNotification', { ...ownFields, secret: string });
export type CreatedNotification = Static<typeof createdNotificationRecord>;

/** A forge that gets the status of each commit's suites. */
export const statusTargetRecord = record('StatusTarget', {
  ...idTwin,
  ...twin('project_id'),
  provider: string,
  api_url: string,
  repository: string,
});
export type StatusTarget = Static<typeof statusTargetRecord>;

/** The fields of a delivery, for every kind of receiver. */
const deliveryFields = {
  ...idTwin,
  type: string,
  state: stateOf(deliveryStates),
  created_at: dateTime,
  attempts: listOf(
    object({ status: nullable(integer), duration_ms: integer, answer: string, error: string, created_at: dateTime }),
  ),
};
export const deliveryRecord = record('Delivery', deliveryFields);
export type Delivery = Static<typeof deliveryRecord>;

/** The report that was sent to a forge, beside the result of sending it. */
export const statusDeliveryRecord = record('StatusDelivery', {
  ...deliveryFields,
  ref: string,
  context: string,
  build_state: string,
  description: string,
});
export type StatusDelivery = Static<typeof statusDeliveryRecord>;
