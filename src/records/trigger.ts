import type { Static } from 'typebox';
import { dateTime, id, idTwin, listOf, nullable, object, record, string, strings } from './schema.ts';

export const scheduleRecord = record('Schedule', {
  ...idTwin,
  cron: string,
  time_zone: string,
  commit_ref: string,
  created_at: dateTime,
  next_run_at: dateTime,
  last_run_at: nullable(dateTime),
  last_outcome: nullable(string),
  last_reason: string,
  last_build_request_id: nullable(id),
  last_build_request_id_str: string,
});
export type Schedule = Static<typeof scheduleRecord>;

const hookFields = {
  ...idTwin,
  provider: string,
  events: strings,
  url: string,
  created_at: dateTime,
  last_delivery_at: nullable(dateTime),
};
export const hookRecord = record('Hook', hookFields);
export type Hook = Static<typeof hookRecord>;
/** With its secret, which only the answers that make one have. */
export const secretHookRecord = record('SecretHook', { ...hookFields, secret: string });
export type SecretHook = Static<typeof secretHookRecord>;

const judgement = {
  outcome: string,
  reason: string,
  build_request_id: nullable(id),
  build_request_id_str: string,
};
const place = { ref: string, sha: string };
export const hookDeliveryRecord = record('HookDelivery', {
  ...idTwin,
  event: string,
  action: string,
  ...place,
  sender: string,
  received_at: dateTime,
  ...judgement,
  changes: listOf(object({ ...place, ...judgement })),
});
export type HookDelivery = Static<typeof hookDeliveryRecord>;
