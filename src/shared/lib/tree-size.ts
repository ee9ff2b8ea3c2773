import { run } from './processes.ts';

export async function treeSize(folder: string): Promise<number> {
  // Without exclude patterns: in a deep tree `du` would take hours to compare every path with them.
  const how = ['--summarize', '--one-file-system', '--block-size=1'];
  const { stdout } = await run('du', [...how, '--', folder], { maxOutput: 4096 });
  return Number.parseInt(stdout.toString(), 10) || 0;
}
