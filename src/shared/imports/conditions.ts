import { longest } from '../domain/bounds.ts';
import type { Rule } from './model.ts';
import { quote } from './shell.ts';

/** Conditions of all systems, and the two ways to say them: rules of a suite, and a test in a step. */
export type Condition =
  | { is: boolean }
  | { subject: Subject; values: readonly string[] }
  | { subject: Subject; pattern: string }
  | { not: Condition }
  | { all: readonly Condition[] }
  | { any: readonly Condition[] };

/** `variable:NAME` is a variable of the build. `branch` is the branch that was pushed to. */
export type Subject =
  | 'event'
  | 'branch'
  | 'tag'
  | 'target'
  | 'message'
  | 'files'
  | 'fork'
  | 'author'
  | `variable:${string}`;

export const always: Condition = { is: true };
export const never: Condition = { is: false };

export function negated(condition: Condition): Condition {
  if ('is' in condition) return { is: !condition.is };
  if ('not' in condition) return condition.not;
  if ('all' in condition) return anyOf(condition.all.map(negated));
  if ('any' in condition) return allOf(condition.any.map(negated));
  return { not: condition };
}

export function allOf(conditions: readonly Condition[]): Condition {
  const flat = conditions.flatMap((one) => ('all' in one ? one.all : [one])).filter((one) => !('is' in one && one.is));
  if (flat.some((one) => 'is' in one)) return never;
  return flat.length === 1 && flat[0] ? flat[0] : flat.length === 0 ? always : { all: flat };
}

/** Values of one subject are joined, because rules cannot say "or" in another way. */
export function anyOf(conditions: readonly Condition[]): Condition {
  const flat = conditions.flatMap((one) => ('any' in one ? one.any : [one])).filter((one) => !('is' in one && !one.is));
  if (flat.some((one) => 'is' in one)) return always;
  const subjects = new Set(flat.map((one) => ('subject' in one ? one.subject : undefined)));
  const [subject] = subjects;
  if (flat.length > 1 && subjects.size === 1 && subject !== undefined) {
    if (flat.every((one) => 'values' in one)) return { subject, values: flat.flatMap(({ values }) => values) };
    return { subject, pattern: flat.map((one) => patternOf(one)).join('|') };
  }
  return flat.length === 1 && flat[0] ? flat[0] : flat.length === 0 ? never : { any: flat };
}

export const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);

const alternatives = (values: readonly string[]): string =>
  values.length === 1 ? `^${escaped(values[0] ?? '')}$` : `^(${values.map(escaped).join('|')})$`;

function patternOf(condition: Condition): string {
  return 'pattern' in condition ? condition.pattern : 'values' in condition ? alternatives(condition.values) : '';
}

const subjectsOfRules: Readonly<Partial<Record<Subject, string>>> = {
  event: 'request.event',
  branch: 'commit.branches',
  tag: 'commit.tags',
  target: 'request.target_branch',
  message: 'commit.message',
  files: 'commit.files',
  fork: 'request.from_fork',
  author: 'commit.author_name',
};

/** All of them must match. Undefined if rules cannot say it. */
export function rulesOf(condition: Condition): Rule[] | undefined {
  const rules = ruleOf(condition);
  return rules?.every(({ value }) => value.length <= longest.ruleValue) ? rules : undefined;
}

function ruleOf(condition: Condition): Rule[] | undefined {
  if ('is' in condition) return condition.is ? [] : undefined;
  if ('all' in condition) {
    const rules = condition.all.map(ruleOf);
    return rules.every((one) => one !== undefined) ? rules.flat() : undefined;
  }
  const isNot = 'not' in condition;
  const atom = isNot ? condition.not : condition;
  if (!('subject' in atom)) return undefined;
  const subject = subjectsOfRules[atom.subject];
  if (subject === undefined) return undefined;
  if ('values' in atom && atom.values.length === 1)
    return [{ subject, operator: isNot ? 'does_not_equal' : 'equals', value: atom.values[0] ?? '' }];
  return [{ subject, operator: isNot ? 'does_not_match' : 'matches', value: patternOf(atom) }];
}

const variables: Readonly<Partial<Record<Subject, string>>> = {
  event: 'HEADRACE_EVENT',
  branch: 'HEADRACE_BRANCH',
  target: 'HEADRACE_TARGET_BRANCH',
};

/** For `if`. Undefined if a build does not know it. */
export function testOf(condition: Condition): string | undefined {
  if ('is' in condition) return condition.is ? 'true' : 'false';
  if ('not' in condition) {
    const test = testOf(condition.not);
    return test === undefined ? undefined : `! ${'subject' in condition.not ? test : `{ ${test}; }`}`;
  }
  if ('subject' in condition) return testOfAtom(condition);
  const [parts, word] = 'all' in condition ? [condition.all, '&&'] : [condition.any, '||'];
  const tests = parts.map(testOf);
  if (tests.some((test) => test === undefined)) return undefined;
  return tests.map((test, at) => ('subject' in (parts[at] ?? always) ? test : `{ ${test}; }`)).join(` ${word} `);
}

function testOfAtom(atom: Extract<Condition, { subject: Subject }>): string | undefined {
  const { subject } = atom;
  if (subject === 'tag') {
    const isTag = '[ "$HEADRACE_EVENT" = tag ]';
    const name = compared('HEADRACE_REF', atom);
    return 'pattern' in atom && atom.pattern === '' ? isTag : `{ ${isTag} && ${name}; }`;
  }
  const name = subject.startsWith('variable:') ? subject.slice('variable:'.length) : variables[subject];
  return name === undefined ? undefined : compared(name, atom);
}

function compared(name: string, atom: Extract<Condition, { subject: Subject }>): string {
  if ('values' in atom && atom.values.length === 1) return `[ "$${name}" = ${quote(atom.values[0] ?? '')} ]`;
  return `printf %s "$${name}" | grep -Eq ${quote(patternOf(atom))}`;
}

/** Of branches, tags and paths. */
export function globPattern(glob: string): string {
  if (glob.length > longest.glob) return escaped(glob);
  let pattern = '';
  for (let at = 0; at < glob.length; at += 1) {
    const one = glob[at] ?? '';
    if (glob.startsWith('**/', at)) {
      pattern += '(.*/)?';
      at += 2;
    } else if (glob.startsWith('**', at)) {
      pattern += '.*';
      at += 1;
    } else if (one === '*') pattern += '[^/]*';
    else if (one === '+' && glob[at - 1] === ']') pattern += '+';
    else if (one === '?') pattern += '[^/]';
    else if (one === '[' && glob.indexOf(']', at) > at + 1) {
      const end = glob.indexOf(']', at);
      pattern += `[${glob
        .slice(at + 1, end)
        .replaceAll('\\', '\\\\')
        .replaceAll('[', '\\[')}]`;
      at = end;
    } else if (one === '{' && /^\{[^{}]*\}/.test(glob.slice(at))) {
      const end = glob.indexOf('}', at);
      pattern += `(${glob
        .slice(at + 1, end)
        .split(',')
        .map(globPattern)
        .join('|')})`;
      at = end;
    } else pattern += escaped(one);
  }
  return pattern;
}

export const isGlob = (text: string): boolean => /[*?[{]/.test(text);

/** An expression for one of the globs. */
export function patternOfGlobs(globs: readonly string[]): string {
  const patterns = globs.map(globPattern);
  return patterns.length === 1 ? `^${patterns[0] ?? ''}$` : `^(${patterns.join('|')})$`;
}

export function matching(subject: Subject, globs: readonly string[]): Condition {
  return globs.every((glob) => !isGlob(glob))
    ? { subject, values: [...globs] }
    : { subject, pattern: patternOfGlobs(globs) };
}
