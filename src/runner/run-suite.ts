import { createMask } from '../lib/masking.ts';
import type { Outcome, SuiteOrder } from '../protocol.ts';
import { FetchError } from './git/failures.ts';
import type { Ended } from './sandbox/types.ts';
import type { Doing } from './work.ts';

const mostHeard = 64 * 1024;

/** Runs a suite's command in a sandbox of its own, over the commit's shared work tree. */
export const runSuite: Doing<SuiteOrder> = async ({ checkouts, sandboxes }, order, { id, say, signal }) => {
  const mask = createMask(order.secrets);
  // What git says belongs to the log of the fetch. A runner that has to fetch again tells of it only if it fails.
  const heard: string[] = [];
  try {
    using checkout = await checkouts.of(order.source, order.sha, (text) => void heard.push(String(text)), signal);
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
    if (!(error instanceof FetchError)) throw error;
    await say(mask.push(Buffer.from(heard.join('').slice(-mostHeard))));
    return { kind: 'unfetchable', reason: error.kind };
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
