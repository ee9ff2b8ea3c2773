import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Config } from '../../shared/config.ts';

/** This process was asked to stop. */
export class Stopped extends Error {
  override name = 'Stopped';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`stopped by ${signal}`);
    this.signal = signal;
  }
}

export interface Stopping {
  /** Aborted with `Stopped` when this process is asked to stop. */
  asked: AbortSignal;
  /** Aborted at a second request: then nobody wants to wait. */
  again: AbortSignal;
}

/**
 * Signals within this time are one request: Ctrl-C reaches every process of a terminal, and npm, which is one of them,
 * passes it on once more.
 */
const sameRequestMs = 1000;

/**
 * Watches for requests to stop this process: by an operator, at its terminal, or because the terminal is closed. It
 * must be called before anything is opened: from then on signals do not end the process, so that a start is always
 * undone completely. With `onHangUp` a SIGHUP asks for that instead, unless it tells that the terminal was closed.
 */
export function stopSignals(onHangUp?: () => void): Stopping {
  const hadTerminal = hasTerminal();
  const asked = new AbortController();
  const again = new AbortController();
  let since = 0;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (signal === 'SIGHUP' && onHangUp && !(hadTerminal && !hasTerminal())) return onHangUp();
      if (!asked.signal.aborted) since = performance.now();
      else if (performance.now() - since >= sameRequestMs) again.abort();
      asked.abort(new Stopped(signal));
    });
  }
  return { asked: asked.signal, again: again.signal };
}

/** Whether this process belongs to a terminal. When that is closed, it belongs to none any more. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

export type WayToStop = 'leave' | 'drain' | 'break';

/**
 * What happens to running builds when a server is stopped. A service manager restarts servers for upgrades, so builds
 * outlive that. A person who ends a server at the terminal wants nothing to be left. Some desktops pass the variables
 * of the service manager on to their terminals.
 */
export function wayToStop({ stop }: Config, env: NodeJS.ProcessEnv = process.env, isAtTerminal = isatty(0)): WayToStop {
  const isService = (env.INVOCATION_ID ?? env.NOTIFY_SOCKET) !== undefined && !isAtTerminal;
  return stop ?? (isService ? 'leave' : 'break');
}
