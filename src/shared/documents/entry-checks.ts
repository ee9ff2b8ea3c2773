import { most } from '../domain/bounds.ts';
import { largestExpression, fitsOperator } from '../domain/rule-expressions.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { checkOptions, strategyFields } from '../records/deploy.ts';
import { columnName, type Field, type ValuesOf } from '../records/fields.ts';
import {
  checkCommand,
  checkRoot,
  checkVariants,
  matrixFields,
  suiteFields,
  type ruleFields,
} from '../records/suite.ts';
import { checkTimes } from '../records/trigger.ts';
import { checkInVariants } from '../records/variant-settings.ts';
import { rawOf, strategies, suites, type Entry, type Kind, type Value } from './kinds.ts';
import { quoted, type MistakeList } from './mistake-list.ts';

/** Rules about several fields of one entry, as in the API (records/). */
export function checkEntry(kind: Kind, entry: Entry, at: string, mistakes: MistakeList): void {
  const refuse = (errors: FieldErrors, why: Readonly<Record<string, string>>): void => {
    for (const [name, [code]] of Object.entries(errors))
      if (code) mistakes.add(`${at}[${name}]`, code, why[`${name} ${code}`] ?? why[name]);
  };
  if (kind === suites) {
    refuse(
      { ...checkCommand(entry), ...checkRoot(entry) },
      {
        'command is_blank': 'is missing: a suite has a command or steps',
        'command invalid_format': 'conflicts with steps: a suite has either a command or steps',
        root: 'needs an image: a build can be root only there',
      },
    );
    const matrix = matrixOf(entry);
    if (matrix)
      refuse(checkVariants(matrix), {
        matrix: `makes more than ${most.variants} variants`,
        matrix_include: `makes, together with the matrix, more than ${most.variants} variants`,
        matrix_exclude: 'excludes every variant of the matrix, so there is nothing to build',
      });
    if (matrix) checkExpanded(entry, matrix, at, mistakes);
  }
  if (kind === strategies && entry.strategy_type !== undefined)
    refuse(strategyMistakes(entry), {
      'repository_url is_blank': 'is missing: a push needs the address of a repository',
      clone_url: 'names another repository than repository_url',
      'local_branch invalid_format': 'is only for pushes: this strategy runs a suite',
      'remote_branch invalid_format': 'is only for pushes: this strategy runs a suite',
      'repository_url invalid_format': 'is only for pushes: this strategy runs a suite',
      'suite is_blank': 'is missing: name the manual suite that a deploy runs',
      'suite invalid_format': 'is only for strategies with strategy_type = "suite"',
    });
  if (kind.section === 'schedules')
    refuse(
      checkTimes({ ...entry, ...(entry.cron !== undefined && { cron: `${entry.cron as string | number | boolean}` }) }),
      {
        cron: `is ${quoted(entry.cron)}, which never comes due. It needs five fields: minute, hour, day, month, day of the week`,
      },
    );
  if (kind.section === 'rules') {
    const { operator, value } = entry as Partial<ValuesOf<typeof ruleFields>>;
    if (operator !== undefined && value !== undefined && !fitsOperator(operator, value))
      mistakes.add(
        `${at}[value]`,
        'invalid_format',
        `is ${quoted(value)}, which is not a regular expression in the syntax of RE2 with at most ${largestExpression} parts`,
      );
  }
}

/** What the values of the variants make of the names, tags and images in it. */
function checkExpanded(entry: Entry, matrix: ReturnType<typeof matrixOf>, at: string, mistakes: MistakeList): void {
  const { image, tags, services, artifacts } = suiteFields;
  const own = { image, tags, services, artifacts };
  const read = Object.entries(own).flatMap(([name, field]) => {
    const value = valueOrNone(field, entry[name] ?? '');
    return value === undefined ? [] : [[name, value] as const];
  });
  const errors = checkInVariants({ ...Object.fromEntries(read), ...matrix });
  for (const [name, [code]] of Object.entries(errors))
    if (code)
      mistakes.add(
        `${at}${name.replace(/^[^[]+/, '[$&]')}`,
        code,
        'is not allowed with the values of a variant of the matrix',
      );
}

function valueOrNone(field: Field<unknown> | Field<never, never>, given: Value): unknown {
  try {
    return given === '' || given === undefined ? undefined : field.parse(rawOf(given));
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

export function matrixOf(entry: Entry): ValuesOf<typeof matrixFields> | undefined {
  try {
    const values = Object.entries(matrixFields).map(([name, field]) => [name, field.parse(rawOf(entry[name] ?? []))]);
    return Object.fromEntries(values) as ValuesOf<typeof matrixFields>;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** In a document, the options of a strategy have no brackets, and a suite is named (relations.ts). */
const nameOf = (sent: string): string => (sent === 'options[suite_id]' ? 'suite' : columnName(sent));

function strategyMistakes(entry: Entry): FieldErrors {
  const values = Object.keys(strategyFields).map((sent) => [sent, entry[nameOf(sent)]]);
  const suite = entry.suite === '' ? undefined : 0n;
  const errors = checkOptions({ ...Object.fromEntries(values), 'options[suite_id]': suite }, { isNew: true });
  return Object.fromEntries(Object.entries(errors).map(([sent, codes]) => [nameOf(sent), codes]));
}
