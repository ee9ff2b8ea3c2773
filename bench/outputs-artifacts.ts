import { median, round, type Figure } from './support/report.ts';
import type { DatabaseName, Databases } from './support/databases.ts';
import { watchGrowth } from './support/growth.ts';
import { startProject } from './support/project.ts';
import { call, startBareUpload } from './support/servers.ts';
import { send, settleDisk } from './uploads.ts';

const size = 500;
const rounds = 5;
/** Noise that is made once and written many times: a real file that costs little to make. */
const make = `perl -e 'open R, "<", "/dev/urandom"; read R, $n, 1 << 20; open F, ">", "large"; print F $n for 1..${size}'`;

/** Time and memory to store files of a build, against a bare server that writes to a file. */
export async function artifacts(databases: Databases, database: DatabaseName): Promise<Figure[]> {
  const project = await startProject({}, await databases.settingsFor(database));
  const { service } = project;
  const bare = await startBareUpload(service);
  const keep = (globs: string): Promise<unknown> => call(service, project.suite, { 'artifacts[]': globs }, 'PUT');
  const build = async (): Promise<number> => {
    await settleDisk();
    const startedAt = performance.now();
    await project.end(await project.build());
    return performance.now() - startedAt;
  };
  try {
    await project.command(make);
    await keep('large');
    for (const warmUp of [build, () => send(`${bare.url}/bare`, {})]) await warmUp(); // the code is compiled
    using growth = watchGrowth(project.pids());
    const [kept, without, theirs]: [number[], number[], number[]] = [[], [], []];
    for (let turn = 0; turn < rounds; turn += 1) {
      await settleDisk();
      theirs.push(await send(`${bare.url}/bare`, {}));
      await keep('');
      without.push(await build());
      await keep('large');
      kept.push(await build());
    }
    const [taken, limit] = [median(kept) - median(without), median(theirs)];
    const speed = (milliseconds: number): string => round(size / (milliseconds / 1000));
    return [
      {
        what: `artifacts of ${size} MB, share of the speed of an upload to a bare server that writes to a file (${database})`,
        value: limit / taken,
        limit: { atLeast: 0.7 },
        from: `${speed(taken)} MB/s (a build that keeps them takes ${round(median(kept))} ms, one that does not ${round(median(without))} ms) against ${speed(limit)} MB/s`,
      },
      ...growth.figures(`artifacts of ${size} MB`, database),
    ];
  } finally {
    await bare.stop();
    await project.stop();
  }
}
