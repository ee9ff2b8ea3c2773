import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Config } from '../../shared/config.ts';

export class Stopped extends Error {
  override name = 'Stopped';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`stopped by ${signal}`);
    this.signal = signal;
  }
}

export interface Stopping {
  asked: AbortSignal;
  /** Aborted at a second request: then nothing waits any longer. */
  again: AbortSignal;
}

/** Signals within this time are one request: Ctrl-C reaches every process of a terminal, and npm passes it on again. */
const sameRequestMs = 1000;

/**
 * Watches for requests to stop: by an operator, at the terminal, or by its closing. Call it before anything is opened:
 * from then on signals do not end the process, so a start is always undone completely. `onHangUp` takes SIGHUP instead,
 * unless the terminal was closed.
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

/** False again once its terminal is closed. */
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
 * The fate of running builds when a server stops. They outlive a service manager's restart for an upgrade. A user who
 * stops a server at the terminal wants nothing left. Some desktops pass a service manager's variables to terminals.
 */
export function wayToStop({ stop }: Config, env: NodeJS.ProcessEnv = process.env, isAtTerminal = isatty(0)): WayToStop {
  const isService = (env.INVOCATION_ID ?? env.NOTIFY_SOCKET) !== undefined && !isAtTerminal;
  return stop ?? (isService ? 'leave' : 'break');
}
