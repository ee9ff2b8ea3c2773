import { bytes, longest } from '../shared/domain/bounds.ts';
import { isReservedVariable, variableNameForm } from '../shared/domain/variable-names.ts';

export interface AddedVariables {
  variables: Map<string, string>;
  /** Messages about rejected lines. They contain no values, because some are secret. */
  passedOver: string[];
}

const mostComplaints = 10;

/**
 * Reads lines `NAME=value`, or `NAME<<WORD` with the value up to a line WORD. Values are literal. If a name repeats,
 * its last value counts.
 */
export function readVariables(text: string): AddedVariables {
  const variables = new Map<string, string>();
  const wrong: string[] = [];
  const lines = (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
  const put = (name: string, value: string, line: number): void => {
    const problem = problemOf(name, value);
    if (problem === undefined) variables.set(name, value);
    else wrong.push(`line ${line}: ${problem}`);
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if (line === '') continue;
    const [, opened, word = ''] = /^([^=<]*)<<(.+)$/.exec(line) ?? [];
    const equals = line.indexOf('=');
    if (opened !== undefined) {
      const end = lines.indexOf(word, at + 1);
      if (end === -1) {
        wrong.push(`line ${at + 1}: the word that ends the value is missing`);
        break;
      }
      put(opened, lines.slice(at + 1, end).join('\n'), at + 1);
      at = end;
    } else if (equals === -1) wrong.push(`line ${at + 1}: it is not NAME=value`);
    else put(line.slice(0, equals), line.slice(equals + 1), at + 1);
  }
  const more = wrong.length - mostComplaints;
  const passedOver = more > 0 ? [...wrong.slice(0, mostComplaints), `and ${more} more`] : wrong;
  return { variables, passedOver };
}

function problemOf(name: string, value: string): string | undefined {
  if (!variableNameForm.test(name) || name.length > longest.variableName)
    return 'it does not start with the name of a variable';
  if (isReservedVariable(name)) return `${name} is a name that builds cannot set`;
  if (value.includes('\0')) return `${name} has a NUL byte`;
  return Buffer.byteLength(value) > longest.variableContent ? `${name} is longer than a variable may be` : undefined;
}

/** Whether programs can start with these variables in their environment. */
export function fits(variables: ReadonlyMap<string, string>): boolean {
  const sizes = Array.from(variables, ([name, value]) => Buffer.byteLength(name) + Buffer.byteLength(value) + 2);
  return sizes.reduce((sum, size) => sum + size, 0) <= bytes.stepEnvironment;
}
