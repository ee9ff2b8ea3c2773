import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/** In a process namespace this finds all processes: orphans become children of its init. */
export async function descendants(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, 'utf8').catch(() => '')),
  );
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
  return [...children, ...(await Promise.all(children.map(descendants))).flat()];
}

export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // already ended
    }
  }
}

/** A zombie counts as gone: it holds no resources. */
export async function untilGone(pid: number): Promise<void> {
  for (let pause = 1; ; pause = Math.min(pause * 2, 100)) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const state = stat.slice(stat.lastIndexOf(')') + 2)[0];
    if (state === undefined || state === 'Z' || state === 'X') return;
    await delay(pause);
  }
}
