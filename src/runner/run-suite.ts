import { createMask } from '../lib/masking.ts';
import type { Outcome, SuiteOrder } from '../protocol.ts';
import { FetchError } from './git/failures.ts';
import type { Ended } from './sandbox/types.ts';
import type { Doing } from './work.ts';

/** Runs a suite's command in a sandbox of its own, over the commit's shared work tree. */
export const runSuite: Doing<SuiteOrder> = async ({ checkouts, sandboxes }, order, { id, say, signal }) => {
  const mask = createMask(order.secrets);
  try {
    using checkout = await checkouts.of(
      order.source,
      order.sha,
      (text) => void say(mask.push(Buffer.from(text))),
      signal,
    );
    const { memoryBytes, processes, timeoutSeconds } = order.limits;
    const ended = await sandboxes.run({
      id,
      steps: [{ name: 'command', command: order.command }],
      environment: order.environment,
      workspace: { checkout: checkout.path },
      limits: { memoryBytes, processes, timeoutMs: timeoutSeconds * 1000 },
      output: (chunk) => say(mask.push(chunk)),
      signal,
    });
    return outcomeOf(ended);
  } catch (error) {
    if (error instanceof FetchError) return { kind: 'unfetchable', reason: error.kind };
    throw error;
  } finally {
    await say(mask.flush());
  }
};

function outcomeOf({ exitStatus, reason }: Ended): Outcome {
  if (reason === 'timed_out' || reason === 'cancelled') return { kind: reason };
  if (reason !== null) return { kind: 'killed', reason };
  return exitStatus === null
    ? { kind: 'lost', message: 'the sandbox ended without a word' }
    : { kind: 'exited', status: exitStatus };
}
