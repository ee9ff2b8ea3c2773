import { Failure, type FailureKind } from '../client/failure.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { exitStatus } from './states.ts';
import { clean } from './text.ts';

/** The command line is wrong, or names something that does not exist. */
export class WrongUse extends Error {}

const statuses: Record<FailureKind, number> = {
  unreachable: exitStatus.errored,
  untrusted: exitStatus.errored,
  refused: exitStatus.errored,
  unavailable: exitStatus.errored,
  not_found: exitStatus.wrongUse,
  invalid: exitStatus.wrongUse,
};

export function complaintOf(error: unknown, isVerbose: boolean): { status: number; text: string } {
  if (error instanceof WrongUse) return { status: exitStatus.wrongUse, text: `headrace: ${lines(error.message)}` };
  if (error instanceof Failure) {
    const more = isVerbose && error.more !== '' ? `\n  ${clean(error.more)}` : '';
    return { status: statuses[error.kind], text: `headrace: ${clean(error.message)}${more}` };
  }
  const text = messageOf(error);
  const more = isVerbose && error instanceof Error ? `\n${lines(error.stack ?? '')}` : '';
  return { status: exitStatus.errored, text: `headrace: ${clean(text)}${more}` };
}

function lines(text: string): string {
  return text.split('\n').map(clean).join('\n');
}
