import { readdirSync, readFileSync } from 'node:fs';

/** Processor time of a process and all processes that it started, including ended ones. */
export function processorSeconds(root: number): number {
  const all = new Map<number, { parent: number; ticks: number }>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
      all.set(Number(name), { parent: Number(fields[1]), ticks });
    } catch {
      // It has just ended, and is counted with its parent.
    }
  }
  const belongs = (pid: number): boolean => {
    for (let at = pid; at > 1; at = all.get(at)?.parent ?? 0) if (at === root) return true;
    return false;
  };
  const ticks = Array.from(all, ([pid, process]) => (belongs(pid) ? process.ticks : 0));
  return ticks.reduce((sum, one) => sum + one, 0) / 100;
}
