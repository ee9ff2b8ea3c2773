import { WrongUse } from '../commands/errors.ts';
import { messageOf } from '../lib/error-code.ts';
import type { Config } from '../config.ts';

/** What a command for operators is called with, besides its arguments. */
export interface Call<Options = object> {
  config: Config;
  options: Options & { config?: string };
}

/** Prints the error on standard error and exits, whatever is still open. */
export function failWith(error: unknown): never {
  const { status, complaint } = failureOf(error);
  console.error(complaint);
  process.exit(status);
}

/** The exit status and the message of a failed command. */
export function failureOf(error: unknown): { status: number; complaint: string } {
  const complaint = `headrace: ${messageOf(error)}`;
  return { status: error instanceof WrongUse ? 2 : 1, complaint };
}
