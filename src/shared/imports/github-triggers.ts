import { longest } from '../domain/bounds.ts';
import { parseCron } from '../domain/cron.ts';
import { allOf, matching, negated, patternOfGlobs, rulesOf, type Condition } from './conditions.ts';
import { variableOfInput } from './github-values.ts';
import {
  isScalar,
  isTable,
  kept,
  listOf,
  lost,
  readKeys,
  tableOf,
  textsOf,
  type Keys,
  type Outcome,
  type Path,
  type Reading,
  type Table,
  type Tally,
  type Translation,
  textOf,
} from './model.ts';
import { nameOf } from './names.ts';
import type { Occasion } from './triggers.ts';

export function triggersOf(on: unknown, translation: Translation, tally: Tally): Occasion[] {
  const given: Table = isTable(on) ? on : Object.fromEntries(textsOf(on).map((name) => [name, null]));
  const occasions: Occasion[] = [];
  for (const [name, value] of Object.entries(given)) {
    const path: Path = isTable(on) ? ['on', name] : ['on'];
    const told = isTable(on) ? value : name;
    if (name === 'schedule') {
      const crons = listOf(value).map((one) => textsOf(tableOf(one).cron)[0] ?? '');
      for (const [at, cron] of crons.entries())
        if (parseCron(cron, 'UTC')) {
          translation.schedules.push({ cron: cron.trim().replaceAll(/\s+/g, ' ') });
          tally.keep();
        } else tally.lose(translation, [...path, at], cron, 'these are not five fields that Headrace reads');
      occasions.push({ events: ['schedule'] });
    } else if (name === 'workflow_dispatch') {
      tally.keep();
      readInputs(tableOf(tableOf(value).inputs), translation, tally, [...path, 'inputs']);
      occasions.push({ events: ['manual'] });
    } else if (name === 'push' || name === 'pull_request') {
      tally.keep();
      occasions.push(...filtered(name, tableOf(value), { tally, target: translation, path }));
    } else
      tally.lose(
        translation,
        path,
        isScalar(told) ? told : undefined,
        'a build starts at a push, a tag, a pull request, a schedule or by hand',
      );
  }
  return occasions;
}

/** A push of a branch, a push of a tag, or a pull request, each with what it is limited to. */
function filtered(event: 'push' | 'pull_request', filters: Table, reading: Reading<Translation>): Occasion[] {
  const conditions: Record<'branches' | 'tags', Condition | undefined> = { branches: undefined, tags: undefined };
  const rules: Occasion['rules'] = [];
  const refs =
    (kind: 'branches' | 'tags', isIgnored: boolean) =>
    (value: unknown): Outcome => {
      const globs = textsOf(value);
      const [yes, no] = [
        globs.filter((one) => !one.startsWith('!')),
        globs.flatMap((one) => (one.startsWith('!') ? [one.slice(1)] : [])),
      ];
      const subject = kind === 'tags' ? 'tag' : event === 'push' ? 'branch' : 'target';
      const isAny = yes.some((one) => one === '**' || (one === '*' && kind === 'tags'));
      const wanted = yes.length === 0 || isAny ? [] : [matching(subject, yes)];
      const all = isIgnored
        ? [negated(matching(subject, globs))]
        : [...wanted, ...(no.length > 0 ? [negated(matching(subject, no))] : [])];
      conditions[kind] = allOf([conditions[kind] ?? { is: true }, ...all]);
      return kept();
    };
  const keys: Keys<Translation> = {
    branches: refs('branches', false),
    'branches-ignore': refs('branches', true),
    tags: refs('tags', false),
    'tags-ignore': refs('tags', true),
    paths: (value) => {
      const globs = textsOf(value);
      if (globs.some((one) => one.startsWith('!'))) return lost('a rule cannot take some of the matching files out');
      const [rule] = rulesOf(matching('files', globs)) ?? [];
      if (!rule) return lost('a rule is not that long');
      if (!globs.includes('**')) rules.push(rule);
      return kept();
    },
    'paths-ignore': (value) => {
      const globs = textsOf(value);
      if (globs.some((one) => one.startsWith('!'))) return lost('a rule cannot put some of the files back in');
      const pattern = patternOfGlobs(globs);
      if (pattern.length > longest.ruleValue) return lost('a rule is not that long');
      rules.push({ subject: 'commit.files', operator: 'not_all_match', value: pattern });
      return kept();
    },
    types: (value) => {
      const others = textsOf(value).filter(
        (one) => !['opened', 'synchronize', 'reopened', 'ready_for_review', 'edited'].includes(one),
      );
      return others.length === 0
        ? kept()
        : lost(`a pull request is built when it is opened or has new commits, and not at: ${others.join(', ')}`);
    },
  };
  readKeys(filters, keys, reading);
  const { branches, tags } = conditions;
  if (event === 'pull_request') return [{ events: ['pull_request'], condition: branches, rules }];
  const isUnlimited = branches === undefined && tags === undefined;
  return [
    ...(isUnlimited || branches ? [{ events: ['push', 'poll'], condition: branches, rules }] : []),
    ...(isUnlimited || tags ? [{ events: ['tag'], condition: tags, rules: tags ? [] : rules }] : []),
  ];
}

const types: Readonly<Record<string, string>> = {
  string: 'string',
  boolean: 'boolean',
  number: 'number',
  choice: 'choice',
};

function readInputs(inputs: Table, translation: Translation, tally: Tally, path: Path): void {
  for (const [name, value] of Object.entries(inputs)) {
    const { type = 'string', description = '', default: usual = '', required, options } = tableOf(value);
    const known = types[String(type)];
    if (known === undefined) {
      tally.lose(translation, [...path, name], type, 'a parameter is a string, a number, a boolean or a choice');
      continue;
    }
    translation.parameters.push({
      name: variableOfInput(name),
      type: known,
      description: nameOf(textOf(description) || name),
      default: textOf(usual) || (known === 'boolean' ? 'false' : ''),
      required: required === true,
      options: known === 'choice' ? textsOf(options) : [],
    });
    tally.keep();
  }
}
