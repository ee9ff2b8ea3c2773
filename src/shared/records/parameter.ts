import type { FieldErrors } from '../errors.ts';
import { described, flag, lines, oneOf, required, text, type ValuesOf } from './fields.ts';
import { variableName } from './forms.ts';
import { recordList, type RecordCheck } from './record-lists.ts';

/** Variables that a project asks for before a build. */

export const parameterFields = {
  name: described(required(variableName), 'the variable that it sets'),
  type: required(oneOf(['string', 'number', 'boolean', 'choice'])),
  default: text('parameterText', { description: 'the value if a request gives none; blank for none' }),
  options: lines({
    most: 'parameterOptions',
    longest: 'name',
    isSet: true,
    description: 'the possible values; only for the type choice, which needs them',
  }),
  description: text('parameterText', { lines: 'many' }),
  required: described(flag(), 'whether a request needs a value, if there is no default'),
};
export type Parameter = ValuesOf<typeof parameterFields>;

const checkParameter: RecordCheck<typeof parameterFields> = (parameter, before): FieldErrors => {
  const { name, type, default: value, options } = parameter;
  if (type === undefined || options === undefined) return {};
  const isChoice = type === 'choice';
  return {
    ...(name !== undefined && before.some((other) => other.name === name) && { name: ['already_exists'] }),
    ...(isChoice && options.length === 0 && { options: ['is_blank'] }),
    ...(!isChoice && options.length > 0 && { options: ['invalid_format'] }),
    ...(value && !isAnswer({ type, options }, value) && { default: ['invalid_format'] }),
  };
};

export const parameters = recordList(
  'parameters',
  parameterFields,
  'variables that are asked for before a build; builds that are triggered take the defaults',
  checkParameter,
);

function isAnswer({ type, options }: Pick<Parameter, 'type' | 'options'>, value: string): boolean {
  if (type === 'number') return /^-?\d+(\.\d+)?$/.test(value);
  if (type === 'boolean') return value === 'true' || value === 'false';
  return type === 'string' || options.includes(value);
}

type Variables = Readonly<Record<string, string>>;

/** Refuses values that do not fit. A blank one counts as missing, except for an optional text. */
export function wrongAnswers(asked: readonly Parameter[], variables: Variables, mayLack = false): FieldErrors {
  const errors: FieldErrors = {};
  for (const parameter of asked) {
    const { name, required: isNeeded } = parameter;
    const given = variables[name];
    const value = answerTo(parameter, variables);
    const isBlank = given?.trim() === '';
    if (given !== undefined && !isBlank && !isAnswer(parameter, given))
      errors[`variables[${name}]`] = ['invalid_format'];
    else if (isNeeded && !mayLack && (isBlank || value === '')) errors[`variables[${name}]`] = ['is_blank'];
  }
  return errors;
}

/** Adds defaults, also in place of values that no longer fit. A parameter without a value adds no variable. */
export function withDefaults(asked: readonly Parameter[], variables: Variables): Variables {
  const all = new Map(Object.entries(variables));
  for (const parameter of asked) {
    const value = answerTo(parameter, variables);
    if (value === '' && parameter.default === '') all.delete(parameter.name);
    else all.set(parameter.name, value);
  }
  return Object.fromEntries(all);
}

function answerTo(parameter: Parameter, variables: Variables): string {
  const given = variables[parameter.name];
  return given !== undefined && isAnswer(parameter, given) ? given : parameter.default;
}
