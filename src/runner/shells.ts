import { messageOf } from '../shared/lib/error-code.ts';
import { orAborted } from '../shared/lib/or-aborted.ts';
import { mostShells } from '../shared/domain/shell-limits.ts';
import { ShellStream } from '../shared/domain/shell-stream.ts';
import type { Link, ShellOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps } from './job-runner.ts';
import { untilAnswered } from './retry.ts';
import { runShell, type ShellOptions } from './shell-session.ts';

export interface ServingShells extends ShellOptions {
  link: Link;
  deps: RunnerDeps;
  signal: AbortSignal;
  log: (message: string) => void;
}

/** Runs users' shells in addition to the jobs. Users wait for shells, and long shells must not delay builds. */
export async function serveShells({ link, deps, signal, log, ...options }: ServingShells): Promise<void> {
  const { kept } = deps;
  if (!kept) return;
  const running = new Map<string, Promise<void>>();
  const start = (order: ShellOrder): void => {
    const session = serveOne(link, deps, order, signal, options)
      .catch((error: unknown) => log(`a shell failed: ${messageOf(error)}`))
      .finally(() => running.delete(order.id));
    running.set(order.id, session);
  };
  try {
    while (!signal.aborted) {
      const room = mostShells - running.size;
      if (kept.isEmpty()) await orAborted(kept.filled(), signal);
      else if (room <= 0) await orAborted(Promise.race(running.values()), signal);
      else {
        const asking = { location: kept.location, running: [...running.keys()], room };
        for (const order of await untilAnswered(signal, () => link.shells(asking, signal)))
          if (!running.has(order.id)) start(order);
      }
    }
  } catch (error) {
    if (!signal.aborted) log(`no shells can be opened here: ${messageOf(error)}`);
  } finally {
    await Promise.all(running.values());
  }
}

async function serveOne(
  link: Link,
  deps: RunnerDeps,
  order: ShellOrder,
  ending: AbortSignal,
  options: ShellOptions,
): Promise<void> {
  const stream = new ShellStream({ open: () => link.shell(order.id), signal: ending });
  try {
    const reason = await runShell(deps, order, stream, options);
    if (!ending.aborted) await link.shellEnd({ shell: order.id, reason }, AbortSignal.timeout(10_000));
  } finally {
    stream.end();
  }
}
