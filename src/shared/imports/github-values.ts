import { allOf, anyOf, negated, testOf, type Condition, type Subject } from './conditions.ts';
import { partsOf, readExpression, type Expression } from './expressions.ts';
import { escaped } from './conditions.ts';
import { isTable, type Path, type Source, type Suite, type Tally, type Translation } from './model.ts';
import { insertedIn, quote } from './shell.ts';

/** A job while it is read. */
export interface Job {
  suite: Suite;
  tally: Tally;
  source: Source;
  translation: Translation;
  /** Blank without a matrix: one variant without values. */
  variants: Map<string, string>[];
  /** The variable of each value of the matrix, by its name there. */
  names: Map<string, string>;
  /** Values of the matrix that something reads. */
  used: Set<string>;
  /** Outputs of earlier steps that something reads, by the step. */
  outputs: Map<string, Set<string>>;
  /** Steps that run a script, by `id`. */
  ids: ReadonlySet<string>;
  path: Path;
  /** Artifacts of the jobs so far, by name. */
  uploads: Map<string, { suite: Suite; paths: readonly string[] }>;
  /** The image of `container`, which no set-up replaces. */
  isContainer: boolean;
}

/** A text that is the same in all variants, or one that a shell expands. */
export type Resolved = { text: string } | { shell: string };

const ofGithub: Readonly<Record<string, Resolved>> = {
  'github.sha': { shell: '${HEADRACE_COMMIT}' },
  'github.ref_name': { shell: '${HEADRACE_REF}' },
  'github.head_ref': { shell: '${HEADRACE_BRANCH}' },
  'github.base_ref': { shell: '${HEADRACE_TARGET_BRANCH}' },
  'github.event_name': { shell: '${HEADRACE_EVENT}' },
  'github.run_id': { shell: '${HEADRACE_BUILD_ID}' },
  'github.run_attempt': { shell: '${HEADRACE_ATTEMPT}' },
  'github.job': { shell: '${HEADRACE_SUITE}' },
  'github.event.number': { shell: '${HEADRACE_PULL_REQUEST}' },
  'github.event.pull_request.number': { shell: '${HEADRACE_PULL_REQUEST}' },
  'github.event.pull_request.head.sha': { shell: '${HEADRACE_COMMIT}' },
  'github.event.pull_request.base.ref': { shell: '${HEADRACE_TARGET_BRANCH}' },
  'github.workspace': { text: '/build' },
  'runner.os': { text: 'Linux' },
  'runner.arch': { text: 'X64' },
  'runner.temp': { text: '/tmp' },
  'github.ref': {
    shell:
      '$(case "$HEADRACE_EVENT" in tag) printf %s "refs/tags/$HEADRACE_REF" ;; *) printf %s "refs/heads/$HEADRACE_BRANCH" ;; esac)',
  },
};

/** What scripts read of GitHub's environment, as it is here. */
export const environmentHere: Readonly<Record<string, string>> = {
  GITHUB_SHA: '$HEADRACE_COMMIT',
  GITHUB_REF_NAME: '$HEADRACE_REF',
  GITHUB_HEAD_REF: '$HEADRACE_BRANCH',
  GITHUB_BASE_REF: '$HEADRACE_TARGET_BRANCH',
  GITHUB_EVENT_NAME: '$HEADRACE_EVENT',
  GITHUB_RUN_ID: '$HEADRACE_BUILD_ID',
  GITHUB_RUN_NUMBER: '$HEADRACE_BUILD_ID',
  GITHUB_RUN_ATTEMPT: '$HEADRACE_ATTEMPT',
  GITHUB_JOB: '$HEADRACE_SUITE',
  GITHUB_WORKSPACE: '/build',
  RUNNER_OS: 'Linux',
  RUNNER_TEMP: '/tmp',
  GITHUB_REF: (ofGithub['github.ref'] as { shell: string }).shell,
};

export const outputVariable = (id: string, output: string): string =>
  `STEP_${id}_${output}`.replaceAll(/\W/g, '_').toUpperCase();

/** Undefined if a build here does not know it. */
export function resolved(job: Job, expression: Expression): Resolved | undefined {
  if ('value' in expression) return { text: expression.value === null ? '' : String(expression.value) };
  if ('name' in expression) return named(job, expression.name);
  if ('call' in expression) return undefined;
  const { operator, args } = expression;
  if (operator !== '||') return undefined;
  const [first, ...others] = args;
  const last = others.at(-1);
  if (!first || !last || others.length !== 1) return undefined;
  const otherwise = resolved(job, last);
  if (!otherwise) return undefined;
  const fallback = 'text' in otherwise ? otherwise.text : otherwise.shell;
  if ('operator' in first && first.operator === '&&' && first.args.length === 2) {
    const [condition, then] = first.args.map((one, at) => (at === 0 ? testIn(job, one) : resolved(job, one)));
    if (typeof condition !== 'string' || typeof then !== 'object') return undefined;
    const value = 'text' in then ? quote(then.text) : `"${then.shell}"`;
    const other = 'text' in otherwise ? quote(otherwise.text) : `"${otherwise.shell}"`;
    return { shell: `$(if ${condition}; then printf %s ${value}; else printf %s ${other}; fi)` };
  }
  const given = resolved(job, first);
  if (!given) return undefined;
  if ('text' in given) return given.text === '' ? otherwise : given;
  const [, name] = /^\$\{(\w+)\}$/.exec(given.shell) ?? [];
  return name === undefined || /["\\`$}]/.test(fallback) ? undefined : { shell: `\${${name}:-${fallback}}` };
}

function testIn(job: Job, expression: Expression): string | undefined {
  const condition = conditionOf(job, expression);
  return condition && testOf(condition);
}

function named(job: Job, name: string): Resolved | undefined {
  const known = ofGithub[name.toLowerCase()];
  if (known) return known;
  const [context, ...rest] = name.split('.');
  const inner = rest.join('.');
  if (context === 'matrix') {
    const variable = job.names.get(inner);
    if (variable === undefined) return { text: '' };
    job.used.add(inner);
    return { shell: `\${${variable}}` };
  }
  const isVariable = /^[A-Za-z_]\w*$/.test(inner);
  if (context === 'env' && isVariable) return { shell: `\${${inner}}` };
  if (name === 'github.token') return secret(job, 'GITHUB_TOKEN');
  if (context === 'secrets' && isVariable) return secret(job, inner);
  if (context === 'vars' && isVariable) return secret(job, inner, 'variable');
  const [, input] = /^(?:github\.event\.)?inputs\.(.+)$/.exec(name) ?? [];
  if (input !== undefined && job.translation.parameters.some((one) => one.name === variableOfInput(input)))
    return { shell: `\${${variableOfInput(input)}}` };
  const [, step, output] = /^steps\.([\w-]+)\.outputs\.(\w+)$/.exec(name) ?? [];
  if (step !== undefined && output !== undefined && job.ids.has(step)) {
    job.outputs.set(step, (job.outputs.get(step) ?? new Set()).add(output));
    return { shell: `\${${outputVariable(step, output)}}` };
  }
  const [, port] = /^job\.services\.[\w-]+\.ports\.(\d+)$/.exec(name) ?? [];
  return port === undefined ? undefined : { text: port };
}

export const variableOfInput = (name: string): string => name.replaceAll(/\W/g, '_').toUpperCase();

export function secret({ translation }: Job, name: string, kind = 'secret'): Resolved | undefined {
  if (/^(?:CI$|HEADRACE)/.test(name) || !/^[A-Za-z_]\w{0,254}$/.test(name)) return undefined;
  const extra =
    name === 'GITHUB_TOKEN'
      ? 'a token of the forge that may do what the steps do with it'
      : `the ${kind} ${name} of the repository there`;
  translation.secrets.set(name, `Set the variable ${name} of the project: ${extra}.`);
  return { shell: `\${${name}}` };
}

const plain = (one: string): string => one.replaceAll(/[\\"$`]/g, String.raw`\$&`);

/** With all expressions in place. Undefined if one cannot be said. */
export function textIn(job: Job, text: string): Resolved | undefined {
  const parts = partsOf(text);
  if (!parts) return undefined;
  const all = parts.map((part) => (typeof part === 'string' ? { text: part } : resolved(job, part)));
  if (all.some((one) => one === undefined)) return undefined;
  if (all.every((one) => one && 'text' in one))
    return { text: all.map((one) => (one as { text: string }).text).join('') };
  return {
    shell: all.map((one) => (one && 'shell' in one ? one.shell : plain((one as { text: string }).text))).join(''),
  };
}

/** As a word of a script. */
export const wordOf = (value: Resolved): string => ('text' in value ? quote(value.text) : `"${value.shell}"`);

/** A script with all expressions in place. Undefined if one cannot be said. */
export function scriptIn(job: Job, script: string): string | undefined {
  const parts = partsOf(script);
  if (!parts) return undefined;
  let whole = '';
  for (const part of parts) {
    if (typeof part === 'string') {
      whole += part;
      continue;
    }
    const value = resolved(job, part);
    if (!value) return undefined;
    const inserted = 'text' in value ? value.text : insertedIn(whole, value.shell);
    if (inserted === undefined) return undefined;
    whole += inserted;
  }
  return whole;
}

/** Events of GitHub, as they are here. */
export const eventsHere: Readonly<Record<string, readonly string[]>> = {
  push: ['push', 'poll', 'tag'],
  pull_request: ['pull_request'],
  schedule: ['schedule'],
  workflow_dispatch: ['manual'],
};

const sameRepository =
  /^github\.event\.pull_request\.head\.repo\.full_name(==|!=)github\.(?:repository|event\.pull_request\.base\.repo\.full_name)$/i;

/** Undefined if it cannot be said here. */
export function conditionOf(job: Job, expression: Expression): Condition | undefined {
  if ('value' in expression) return { is: Boolean(expression.value) };
  if ('name' in expression) {
    const value = resolved(job, expression);
    if (!value) return isRepository(expression.name) ? { is: true } : undefined;
    if ('text' in value) return { is: value.text !== '' && value.text !== 'false' };
    const subject = subjectOf(value);
    return subject && { not: { subject, pattern: '^(false|)$' } };
  }
  if ('call' in expression) return ofCall(job, expression.call, expression.args);
  const { operator, args } = expression;
  if (operator === '!') {
    const inner = args[0] && conditionOf(job, args[0]);
    return inner && negated(inner);
  }
  if (operator === '&&' || operator === '||') {
    const all = args.map((one) => conditionOf(job, one));
    const known = all.filter((one) => one !== undefined);
    if (known.length < all.length) return undefined;
    return operator === '&&' ? allOf(known) : anyOf(known);
  }
  if (operator !== '==' && operator !== '!=') return undefined;
  const [left, right] = args;
  if (!left || !right) return undefined;
  const both =
    'name' in left && 'name' in right ? sameRepository.exec(`${left.name}${operator}${right.name}`) : undefined;
  if (both) return { subject: 'fork', values: [both[1] === '==' ? 'false' : 'true'] };
  const [variable, constant] = 'value' in right ? [left, right] : [right, left];
  if (!('value' in constant)) return undefined;
  const equal = compared(job, variable, String(constant.value ?? ''));
  return equal && (operator === '==' ? equal : negated(equal));
}

/** The repository that has the file is the one that is built. */
const isRepository = (name: string): boolean => name === 'github.repository' || name === 'github.repository_owner';

function subjectOf(value: Resolved): Subject | undefined {
  const [, name] = 'shell' in value ? (/^\$\{(\w+)\}$/.exec(value.shell) ?? []) : [];
  return name === undefined ? undefined : `variable:${name}`;
}

function compared(job: Job, variable: Expression, value: string): Condition | undefined {
  if (!('name' in variable)) return undefined;
  const { name } = variable;
  if (isRepository(name)) return { is: true };
  if (name === 'github.event_name') {
    const values = eventsHere[value];
    return values ? { subject: 'event', values } : { is: false };
  }
  if (name === 'github.ref') {
    const [, kind, ref = ''] = /^refs\/(heads|tags)\/(.+)$/.exec(value) ?? [];
    if (kind === undefined) return { is: false };
    return { subject: kind === 'heads' ? 'branch' : 'tag', values: [ref] };
  }
  if (name === 'github.ref_type') return value === 'tag' ? { subject: 'event', values: ['tag'] } : negatedTag;
  if (name === 'github.ref_name' || name === 'github.head_ref') return { subject: 'branch', values: [value] };
  if (name === 'github.base_ref' || name === 'github.event.pull_request.base.ref')
    return { subject: 'target', values: [value] };
  if (name === 'github.event.pull_request.head.repo.fork') return { subject: 'fork', values: [value] };
  if (name.startsWith('matrix.')) {
    const key = name.slice('matrix.'.length);
    const known = new Set(job.variants.map((one) => one.get(key) ?? ''));
    if (!known.has(value)) return { is: false };
    if (known.size === 1) return { is: true };
  }
  const known = resolved(job, variable);
  if (!known) return undefined;
  if ('text' in known) return { is: known.text === value };
  const subject = subjectOf(known);
  return subject && { subject, values: [value] };
}

const negatedTag: Condition = { not: { subject: 'event', values: ['tag'] } };

function ofCall(job: Job, call: string, args: readonly Expression[]): Condition | undefined {
  if (call === 'success' && args.length === 0) return { is: true };
  const [whole, part] = args;
  if (!whole || !part || !('name' in whole) || !('value' in part)) return undefined;
  const text = escaped(String(part.value));
  const pattern = { startswith: `^${text}`, endswith: `${text}$`, contains: text }[call];
  if (pattern === undefined) return undefined;
  if (whole.name === 'github.ref') {
    const [, kind, rest = ''] = /^refs\/(heads|tags)\/(.*)$/.exec(String(part.value)) ?? [];
    if (call !== 'startswith' || kind === undefined) return undefined;
    if (kind === 'tags' && rest === '') return { subject: 'event', values: ['tag'] };
    if (rest === '') return negatedTag;
    return { subject: kind === 'heads' ? 'branch' : 'tag', pattern: `^${escaped(rest)}` };
  }
  if (whole.name === 'github.event.head_commit.message') return { subject: 'message', pattern };
  if (whole.name === 'github.ref_name') return { subject: 'branch', pattern };
  const value = resolved(job, whole);
  const subject = value && subjectOf(value);
  return subject && { subject, pattern };
}

/** The text of an `if`, with or without `${{ }}`. */
export function readCondition(text: unknown): Expression | undefined {
  if (typeof text === 'boolean') return { value: text };
  if (typeof text !== 'string' || isTable(text)) return undefined;
  const [, inner] = /^\s*\$\{\{(.*)\}\}\s*$/s.exec(text) ?? [];
  const own = inner?.includes('${{') === false ? inner : text;
  return readExpression(own.replaceAll('${{', '(').replaceAll('}}', ')'));
}
