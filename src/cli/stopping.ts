/** This process was asked to stop. */
export class Stopped extends Error {
  override name = 'Stopped';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`stopped by ${signal}`);
    this.signal = signal;
  }
}

/**
 * Aborted with `Stopped` when this process is asked to stop: by an operator, at its terminal, or because the terminal
 * is closed. It must be called before anything is opened: from then on signals do not end the process, and repeated
 * signals change nothing, so that a start is always undone completely.
 */
export function stopSignal(): AbortSignal {
  const asked = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => asked.abort(new Stopped(signal)));
  }
  return asked.signal;
}

/** Resolves when the signal is aborted. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  await promise;
}
