import { providerNames } from '../domain/forge-providers.ts';
import type { Static } from 'typebox';
import { parseCron } from '../domain/cron.ts';
import type { FieldErrors } from '../errors.ts';
import { isTimeZone } from '../lib/time-zones.ts';
import {
  answersOf,
  described,
  flag,
  oneOf,
  refined,
  required,
  severalOf,
  text,
  texts,
  withDefault,
  type ValuesOf,
} from './fields.ts';
import { commitRef, variableContent, variableName } from './forms.ts';
import { dateTime, id, ownId, listOf, mapOf, nullable, object, record, string } from './schema.ts';

export const scheduleFields = {
  cron: required(text('cron', { description: 'five fields: minute, hour, day, month, day of the week' })),
  time_zone: withDefault(
    text('timeZone', { check: isTimeZone, description: 'an IANA time zone, such as Europe/Berlin' }),
    'UTC',
  ),
  /** Blank for the default branch. */
  commit_ref: commitRef,
  /** In one order, so that an applied file shows no change. */
  variables: described(
    refined(texts(variableName, variableContent, 'variablesOfRequest'), (variables) =>
      Object.fromEntries(Object.entries(variables).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    ),
    'variables for its builds, as in a build request; a token needs the scope `suites` too',
  ),
  reuse: described(flag(), 'whether suites with `reuse` may be passed without running; a nightly build is to find out'),
};
/** Both fields decide whether there is a next time. An expression without one is refused. */
export function checkTimes({
  cron,
  time_zone: timeZone = 'UTC',
}: Partial<ValuesOf<typeof scheduleFields>>): FieldErrors {
  if (cron === undefined || parseCron(cron, timeZone)?.after(Date.now()) !== undefined) return {};
  return { cron: ['invalid_format'] };
}
export const scheduleRecord = record('Schedule', {
  ...ownId,
  ...answersOf(scheduleFields),
  variables: mapOf(string),
  created_at: dateTime,
  next_run_at: dateTime,
  last_run_at: nullable(dateTime),
  last_outcome: nullable(string),
  last_reason: string,
  last_build_request_id: nullable(id),
  last_build_request_id_str: string,
});
export type Schedule = Static<typeof scheduleRecord>;

export const hookFields = {
  provider: required(oneOf([...providerNames, 'generic'])),
  events: severalOf(['push', 'tag', 'pull_request', 'comment'], ['push', 'tag', 'pull_request']),
};
const hook = {
  ...ownId,
  ...answersOf(hookFields),
  url: string,
  created_at: dateTime,
  last_delivery_at: nullable(dateTime),
};
export const hookRecord = record('Hook', hook);
export type Hook = Static<typeof hookRecord>;
/** Only the responses that create one have the secret. */
export const secretHookRecord = record('SecretHook', { ...hook, secret: string });
export type SecretHook = Static<typeof secretHookRecord>;

const decision = {
  outcome: string,
  reason: string,
  build_request_id: nullable(id),
  build_request_id_str: string,
};
const target = { ref: string, sha: string };
export const hookDeliveryRecord = record('HookDelivery', {
  ...ownId,
  event: string,
  action: string,
  ...target,
  sender: string,
  received_at: dateTime,
  ...decision,
  changes: listOf(object({ ...target, ...decision })),
});
export type HookDelivery = Static<typeof hookDeliveryRecord>;
