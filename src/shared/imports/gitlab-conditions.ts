import { allOf, anyOf, escaped, matching, negated, type Condition } from './conditions.ts';
import { isTable, tableOf, textsOf, textOf } from './model.ts';

export interface Repository {
  defaultBranch?: string | undefined;
}

const always: Condition = { is: true };

const keywords: Readonly<Record<string, Condition>> = {
  branches: { subject: 'event', values: ['push', 'poll', 'manual', 'schedule'] },
  tags: { subject: 'event', values: ['tag'] },
  merge_requests: { subject: 'event', values: ['pull_request'] },
  external_pull_requests: { subject: 'event', values: ['pull_request'] },
  schedules: { subject: 'event', values: ['schedule'] },
  pushes: { subject: 'event', values: ['push', 'poll', 'tag'] },
  web: { subject: 'event', values: ['manual'] },
  api: { subject: 'event', values: ['manual'] },
  triggers: { subject: 'event', values: ['manual'] },
};

/** `only` and `except`: names of branches and tags, keywords, and expressions between slashes. */
export function ofRefs(value: unknown, repository: Repository): Condition | undefined {
  const { refs, changes, variables, ...others } = isTable(value) ? value : { refs: value };
  if (Object.keys(others).length > 0) return undefined;
  const named = textsOf(refs).map((ref): Condition => {
    const known = Object.hasOwn(keywords, ref) ? keywords[ref] : undefined;
    if (known) return known;
    const pattern = /^\/(.*)\/(i?)$/.exec(ref);
    return pattern
      ? { subject: 'branch', pattern: `${pattern[2] === 'i' ? '(?i)' : ''}${pattern[1] ?? ''}` }
      : matching('branch', [ref.replace(/@.*$/, '')]);
  });
  const expressions = textsOf(variables).map((one) => readIf(one, repository));
  if (expressions.some((one) => one === undefined)) return undefined;
  return allOf([
    ...(named.length > 0 ? [anyOf(named)] : []),
    ...(changes === undefined ? [] : [matching('files', textsOf(changes))]),
    ...(expressions.length > 0 ? [anyOf(expressions as Condition[])] : []),
  ]);
}

/** The first rule that fits decides. Undefined if that cannot be said. */
export function conditionOfRules(
  rules: readonly unknown[],
  repository: Repository,
): { condition: Condition; isManual: boolean } | undefined {
  let condition: Condition = { is: false };
  const starts = new Set<boolean>();
  for (const rule of rules.flat(5).map(tableOf).toReversed()) {
    if (rule.exists !== undefined) return undefined;
    const own = rule.if === undefined ? always : readIf(textOf(rule.if), repository);
    if (!own) return undefined;
    const globs = isTable(rule.changes) ? rule.changes.paths : rule.changes;
    const all = allOf([own, ...(globs === undefined ? [] : [matching('files', textsOf(globs))])]);
    const isNever = rule.when === 'never';
    if (!isNever) starts.add(rule.when === 'manual');
    condition = isNever ? allOf([negated(all), condition]) : anyOf([all, condition]);
  }
  return starts.size > 1 ? undefined : { condition, isManual: starts.has(true) };
}

const tokens = /\s*(\$\w+|"[^"]*"|'[^']*'|\/(?:\\.|[^/\\])*\/i?|==|!=|=~|!~|&&|\|\||[()]|null)/;

/** `$CI_COMMIT_BRANCH == "main" && …`. Undefined if it cannot be said. */
function readIf(text: string, repository: Repository): Condition | undefined {
  const all: string[] = [];
  const whole = text.trim();
  const reader = new RegExp(tokens, 'y');
  while (reader.lastIndex < whole.length) {
    const found = reader.exec(whole);
    if (!found || all.length > 200) return undefined;
    all.push(found[1] ?? '');
  }
  let at = 0;
  const either = (): Condition | undefined => joined('||', both, anyOf);
  const both = (): Condition | undefined => joined('&&', one, allOf);
  const joined = (
    sign: string,
    inner: () => Condition | undefined,
    join: (all: Condition[]) => Condition,
  ): Condition | undefined => {
    const parts = [inner()];
    while (all[at] === sign) {
      at += 1;
      parts.push(inner());
    }
    return parts.every((part) => part !== undefined) ? join(parts) : undefined;
  };
  const one = (): Condition | undefined => {
    const first = all[at];
    at += 1;
    if (first === '(') {
      const inner = either();
      if (all[at] !== ')') return undefined;
      at += 1;
      return inner;
    }
    if (first?.startsWith('$') !== true) return undefined;
    const sign = all[at] ?? '';
    if (!['==', '!=', '=~', '!~'].includes(sign)) return isSet(first);
    const value = all[at + 1] ?? '';
    at += 2;
    const equal = compared(first, value, repository);
    return equal && (sign.startsWith('!') ? negated(equal) : equal);
  };
  const read = either();
  return at === all.length ? read : undefined;
}

const tagEvent: Condition = { subject: 'event', values: ['tag'] };

function isSet(variable: string): Condition | undefined {
  if (variable === '$CI_COMMIT_TAG') return tagEvent;
  if (variable === '$CI_COMMIT_BRANCH') return { subject: 'event', values: ['push', 'poll', 'manual', 'schedule'] };
  return variable === '$CI_MERGE_REQUEST_ID' || variable === '$CI_MERGE_REQUEST_IID'
    ? { subject: 'event', values: ['pull_request'] }
    : undefined;
}

const sources: Readonly<Record<string, readonly string[]>> = {
  merge_request_event: ['pull_request'],
  external_pull_request_event: ['pull_request'],
  push: ['push', 'poll', 'tag'],
  schedule: ['schedule'],
  web: ['manual'],
  api: ['manual'],
  trigger: ['manual'],
};

function compared(variable: string, given: string, { defaultBranch }: Repository): Condition | undefined {
  if (given === 'null' || given === '""' || given === "''") {
    const set = isSet(variable);
    return set && negated(set);
  }
  const text = given === '$CI_DEFAULT_BRANCH' ? defaultBranch : /^["']/.test(given) ? given.slice(1, -1) : undefined;
  const pattern = /^\/(.*)\/(i?)$/.exec(given);
  const about = {
    $CI_COMMIT_BRANCH: 'branch',
    $CI_COMMIT_REF_NAME: 'branch',
    $CI_COMMIT_TAG: 'tag',
    $CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'target',
    $CI_COMMIT_MESSAGE: 'message',
    $CI_COMMIT_TITLE: 'message',
  } as const;
  if (variable === '$CI_PIPELINE_SOURCE')
    return text === undefined ? undefined : { subject: 'event', values: sources[text] ?? ['-'] };
  const subject = Object.hasOwn(about, variable) ? about[variable as keyof typeof about] : undefined;
  if (subject === undefined) return undefined;
  if (pattern)
    return {
      subject,
      pattern: `${pattern[2] === 'i' ? '(?i)' : ''}${(pattern[1] ?? '').replaceAll(String.raw`\/`, '/')}`,
    };
  return text === undefined
    ? undefined
    : subject === 'message'
      ? { subject, pattern: `^${escaped(text)}$` }
      : { subject, values: [text] };
}
