import { userInfo } from 'node:os';
import type { Doer } from '../../server/auth/audit.ts';

/** The user who runs a command on this machine, for the audit log. */
export function onTheMachine(): Doer {
  return { actor: null, via: 'command_line', application: null, address: null, unixUser: unixUser() };
}

function unixUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`; // a container's user may have no name
  }
}
