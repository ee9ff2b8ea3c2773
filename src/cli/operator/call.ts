import { WrongUse } from '../developer/errors.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import type { Config } from '../../shared/config.ts';

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

/** The last lines of what a library or another program said at length: they name the reason. */
function shortened(message: string): string {
  const lines = message.split('\n').filter((line) => line.trim() !== '');
  return [...lines.slice(0, 1), ...lines.slice(1).slice(-3)].join('\n');
}

/** How the message of a failed command begins. */
export const complaintMark = 'headrace: ';

/** The exit status and the message of a failed command. */
export function failureOf(error: unknown): { status: number; complaint: string } {
  return { status: error instanceof WrongUse ? 2 : 1, complaint: `${complaintMark}${shortened(messageOf(error))}` };
}
