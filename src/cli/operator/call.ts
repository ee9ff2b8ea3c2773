import { WrongUse } from '../developer/errors.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import type { Config } from '../../shared/config.ts';

export interface Call<Options = object> {
  config: Config;
  options: Options & { config?: string; json?: true };
}

/** For users, or with --json for programs. */
export function tell({ options }: Pick<Call, 'options'>, record: object, ...lines: readonly string[]): void {
  console.log(options.json ? JSON.stringify(record) : lines.join('\n'));
}

export function failWith(error: unknown): never {
  const { status, complaint } = failureOf(error);
  console.error(complaint);
  process.exit(status);
}

/** The last lines of a long message have the reason. */
function shortened(message: string): string {
  const lines = message.split('\n').filter((line) => line.trim() !== '');
  return [...lines.slice(0, 1), ...lines.slice(1).slice(-3)].join('\n');
}

export const complaintMark = 'headrace: ';

export function failureOf(error: unknown): { status: number; complaint: string } {
  return { status: error instanceof WrongUse ? 2 : 1, complaint: `${complaintMark}${shortened(messageOf(error))}` };
}
