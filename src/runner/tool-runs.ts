import { DiskFullError } from '../shared/lib/disk-reserve.ts';
import { rootUser, type Ended, type Limits, type Mount, type Sandboxes } from './sandbox/types.ts';

/** Trees are packed, unpacked and changed in sandboxes, because builds or other runners made their contents. */
export interface Packing {
  id: string;
  sandboxes: Sandboxes;
  limits?: Limits;
  signal: AbortSignal;
}

interface Tool {
  command: string;
  /** The command runs and writes here. */
  directory: string;
  mounts: Mount[];
  /** Needed for files of builds, which may have several users. Some files are readable by only one of them. */
  asRoot?: boolean;
}

const usualLimits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 1024, timeoutMs: 30 * 60 * 1000 };
const mostOutput = 4000;

export async function runTool(
  { id, sandboxes, limits = usualLimits, signal }: Packing,
  { command, directory, mounts, asRoot = false }: Tool,
): Promise<{ ended: Ended; output: string }> {
  let output = '';
  const ended = await sandboxes.run({
    id,
    steps: [{ name: 'tool', command }],
    user: asRoot ? rootUser : undefined,
    environment: {},
    workspace: { directory },
    mounts,
    limits,
    output: (chunk) => {
      if (output.length < mostOutput) output += chunk.toString();
    },
    signal,
  });
  if (ended.reason === 'cancelled') throw signal.reason ?? new Error('the runner ends');
  if (ended.reason === 'out_of_disk') throw new DiskFullError();
  return { ended, output };
}

/** Throws unless the command succeeds. */
export async function expectTool(packing: Packing, tool: Tool, what: string): Promise<void> {
  const { ended, output } = await runTool(packing, tool);
  if (ended.exitStatus !== 0) throw new Error(`${what}: ${ended.reason ?? output.trim()}`);
}
