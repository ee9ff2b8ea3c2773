/** A runner to be killed: `node victim.ts STATE_DIR MARK NETWORK` starts a run that would go on for ten minutes. */
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import type { Network } from '../../../src/runner/sandbox/types.ts';

const [stateDir = '', mark = '', network = 'none'] = process.argv.slice(2);
const sandboxes = await openSandboxes({
  stateDir,
  network: network as Network,
  isolation: 'required',
  log: () => {},
  prepare: 2,
});
await sandboxes.run({
  id: 'victim',
  steps: [
    {
      name: 'suite',
      command:
        '(trap "" TERM; setsid sleep 600 >/dev/null 2>&1 &) ; mkdir -p /build/left/behind; echo running; sleep 600',
    },
  ],
  environment: { TEST_MARK: mark },
  workspace: { empty: true },
  limits: { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: 600_000 },
  output: (chunk) => void process.stdout.write(chunk),
  signal: new AbortController().signal,
});
