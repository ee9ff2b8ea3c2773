import type { SuiteRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { described, flag, lines, storedAs, wholeNumber, type Field } from '../http/fields.ts';
import { readMatrix, textOfAxis } from '../lib/matrix.ts';
import { isReservedVariable } from '../lib/variable-names.ts';

/**
 * How a suite is run: how long it may take, whether it may fail, how often it is retried, and its matrix. The values are
 * those of its columns.
 */

const longestTimeout = 30 * 24 * 3600;
export const mostRetries = 3;

export const asJson = (list: string[]): string => JSON.stringify(list);

export const runFields = {
  timeout: described(
    wholeNumber({ min: 0, max: longestTimeout, fallback: 0 }),
    'Seconds; 0 for as long as the server allows, which may be less than this maximum',
  ),
  allow_failure: storedAs(flag(), Number),
  retries: wholeNumber({ min: 0, max: mostRetries, fallback: 0 }),
  'matrix[]': storedAs(matrix(), asJson),
};

export function runView(suite: SuiteRow) {
  return {
    timeout: suite.timeout,
    allow_failure: suite.allow_failure === 1,
    retries: suite.retries,
    matrix: JSON.parse(suite.matrix) as string[],
  };
}

type Columns<Sent> = { [Name in keyof Sent as Name extends `${infer Column}[]` ? Column : Name]: Sent[Name] };

/** The columns of a suite: lists have brackets in the names of their fields. */
export function columnsOf<Sent extends object>(sent: Sent): Columns<Sent> {
  const columns = Object.entries(sent).map(([name, value]) => [name.replace(/\[\]$/, ''), value as unknown]);
  return Object.fromEntries(columns) as Columns<Sent>;
}

function matrix(): Field<string[]> {
  const field = lines({
    most: 'matrixLines',
    longest: 'matrixLine',
    description: 'NAME=a,b,c: one build for every combination',
  });
  return {
    ...field,
    parse(raw) {
      const axes = readMatrix(field.parse(raw));
      if (!axes) throw new ApiError('invalid_format');
      if (axes.some(({ name }) => isReservedVariable(name))) throw new ApiError('is_reserved');
      return axes.map(textOfAxis);
    },
  };
}

/** No suite may take longer than the server allows. */
export async function checkTimeout(
  { buildTimeout }: { buildTimeout: number },
  { timeout = 0 }: { timeout?: number },
): Promise<FieldErrors> {
  return timeout > buildTimeout ? { timeout: ['invalid_format'] } : {};
}
