import { allOf, anyOf, matching, negated, type Condition } from './conditions.ts';
import { isTable, listOf, tableOf, textsOf } from './model.ts';

const events: Readonly<Record<string, readonly string[]>> = {
  push: ['push', 'poll'],
  tag: ['tag'],
  pull_request: ['pull_request'],
  pull_request_closed: [],
  cron: ['schedule'],
  manual: ['manual'],
  custom: ['manual'],
};

const ref = /^refs\/(?:tags|heads)\//;

/** What each key limits: the condition for a list of values. Undefined if it cannot be said. */
const keys: Readonly<Record<string, (values: readonly string[]) => Condition | undefined>> = {
  event: (values) =>
    values.every((one) => Object.hasOwn(events, one))
      ? { subject: 'event', values: values.flatMap((one) => events[one] ?? []) }
      : undefined,
  branch: (values) => matching('branch', values),
  branches: (values) => matching('branch', values),
  path: (values) => matching('files', values),
  ref: (values) =>
    values.every((one) => ref.test(one))
      ? matching(
          values.every((one) => one.startsWith('refs/tags/')) ? 'tag' : 'branch',
          values.map((one) => one.replace(ref, '')),
        )
      : undefined,
};
/** Those of a step are read elsewhere, and the repository is the one that is built. */
const everywhere = ['status', 'cron', 'repo', 'instance'];

/** Each key has a value, a list, or `include` and `exclude`. Several tables are alternatives. */
export function conditionOf(given: unknown): Condition | undefined {
  const all = listOf(given).map((one) => {
    const parts = Object.entries(tableOf(one)).map(([key, value]) => ofKey(key, value));
    return parts.every((part) => part !== undefined) ? allOf(parts) : undefined;
  });
  return all.every((one) => one !== undefined) ? anyOf(all) : undefined;
}

function ofKey(key: string, value: unknown): Condition | undefined {
  if (everywhere.includes(key)) return { is: true };
  const [yes, no] = isTable(value) ? [textsOf(value.include), textsOf(value.exclude)] : [textsOf(value), []];
  if (key === 'platform') return yes.every((one) => one.startsWith('linux')) ? { is: true } : undefined;
  const make = Object.hasOwn(keys, key) ? keys[key] : undefined;
  if (!make) return undefined;
  const parts = [
    ...(yes.length > 0 ? [make(yes)] : []),
    ...(no.length > 0 ? [make(no)].map((one) => one && negated(one)) : []),
  ];
  return parts.every((part) => part !== undefined) ? allOf(parts) : undefined;
}
