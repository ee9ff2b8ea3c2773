/**
 * Fills a data folder with a week of a team's work, to look at pages: `node scripts/fill.ts FOLDER`. With
 * `--serve PORT` it then serves the folder, and stands for the runners: what ran at the end runs on.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { shiftClock } from './filled/clock.ts';

const { positionals, values } = parseArgs({ allowPositionals: true, options: { serve: { type: 'string' } } });
const [folder] = positionals;
if (folder === undefined) throw new Error('usage: node scripts/fill.ts FOLDER [--serve PORT]');
const { password, startRunning } = await import('./filled/running.ts');
const { people } = await import('./filled/plan.ts');

if (!existsSync(join(folder, 'headrace.db'))) {
  const end = Date.now();
  shiftClock();
  const { liveTheWeek } = await import('./filled/week.ts');
  await liveTheWeek(
    () => startRunning(folder),
    end,
    (line) => console.log(line),
  );
  console.log(`${folder}: ${people[0]}, password: ${password}`);
  if (values.serve === undefined) process.exit();
}
if (values.serve !== undefined) {
  const running = await startRunning(folder, { port: values.serve });
  console.log(`${running.address}: ${people[0]}, password: ${password}`);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop.abort());
  const machines = (await running.machines()).filter(({ tags }) => tags !== 'macos');
  while (!stop.signal.aborted) {
    const claimed = await running.store.db.read.selectFrom('jobs').select(['claim', 'holder']).execute();
    for (const machine of machines) {
      await running.hear(machine);
      const claims = claimed.flatMap(({ claim, holder }) => (claim && holder === machine.self.holder ? [claim] : []));
      const told = AbortSignal.timeout(200);
      if (claims.length > 0) await running.dispatch.extend(machine.self, { claims }, told);
    }
    await pause(3000, undefined, { signal: stop.signal }).catch(() => {});
  }
  await running.close();
  process.exit();
}
