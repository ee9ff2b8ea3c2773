import { readFileSync, statSync } from 'node:fs';
import { messageOf } from '../lib/error-code.ts';
import { bytes } from './bounds.ts';
import { isReservedVariable, variableNameForm } from './variable-names.ts';

/** The message omits the value. */
export class EnvironmentFileError extends Error {
  override name = 'EnvironmentFileError';
}

/** The last line per name counts. Values are literal, with quotes and `$`. Blank lines and `#` lines are ignored. */
export function readEnvironmentFile(path: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const [at, line] of textIn(path).split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const [, name = '', value = ''] = /^([^=]*)=(.*)$/s.exec(line) ?? [];
    const refuse = (why: string): never => {
      throw new EnvironmentFileError(`${path}, line ${at + 1}: ${why}`);
    };
    if (!variableNameForm.test(name)) refuse('it is not NAME=value');
    if (isReservedVariable(name) || name === 'HOME') refuse(`${name} is set for each build, and cannot be set here`);
    if (value.includes('\0')) refuse(`the value of ${name} has a NUL byte in it`);
    variables[name] = value;
  }
  return variables;
}

function textIn(path: string): string {
  const cannot = (why: string): EnvironmentFileError => new EnvironmentFileError(`${path}: ${why}`);
  try {
    const found = statSync(path);
    if (!found.isFile()) throw cannot('it is not a file');
    if (found.size > bytes.environmentFile) throw cannot(`it has more than ${bytes.environmentFile} bytes`);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof EnvironmentFileError) throw error;
    throw cannot(`it cannot be read: ${messageOf(error)}`);
  }
}
