import type { DatabaseName, Databases } from './support/databases.ts';
import { watchGrowth } from './support/growth.ts';
import { startProject } from './support/project.ts';
import { median, round, type Figure } from './support/report.ts';
import { call } from './support/servers.ts';
import { settleDisk } from './uploads.ts';

const size = 200;
const tests = 50_000;
const rounds = 3;
const line = 'a line of output\\n';
const linesPerTest = Math.round((size * 1e6) / tests / (line.length - 1));

/** Most of a large report is the output of its tests. */
const reportOf = (count: number): string =>
  `perl -e 'my $said = "${line}" x ${linesPerTest}; print "<testsuite>"; print qq(<testcase name="test $_" time="0.1"><system-out>$said</system-out></testcase>) for 1..${count}; print "</testsuite>"' > report.xml`;

/** Time and memory to read and store the report of a large suite, against the same file as an artifact. */
export async function reports(databases: Databases, database: DatabaseName): Promise<Figure[]> {
  const project = await startProject({}, await databases.settingsFor(database));
  const { service } = project;
  const build = async (count: number, field: 'reports[]' | 'artifacts[]'): Promise<number> => {
    const fields = { command: reportOf(count), 'reports[]': '', 'artifacts[]': '', [field]: 'report.xml' };
    await call(service, project.suite, fields, 'PUT');
    await settleDisk();
    const startedAt = performance.now();
    const at = await project.build();
    await project.end(at);
    const taken = performance.now() - startedAt;
    const { tests_passed: passed } = await call<{ tests_passed: number }>(service, at);
    if (field === 'reports[]' && passed !== count) throw new Error(`${passed} tests were counted, not ${count}`);
    return taken;
  };
  try {
    for (const field of ['reports[]', 'artifacts[]'] as const) await build(100, field); // warms up: the code is loaded
    using growth = watchGrowth(project.pids());
    const [read, kept]: [number[], number[]] = [[], []];
    for (let turn = 0; turn < rounds; turn += 1) {
      read.push(await build(tests, 'reports[]'));
      kept.push(await build(tests, 'artifacts[]'));
    }
    return [
      {
        what: `a build with a test report of ${size} MB, over one that keeps it as an artifact (${database})`,
        value: median(read) / median(kept),
        limit: { atMost: 4 },
        from: `${round(median(read))} ms against ${round(median(kept))} ms, ${tests} tests`,
      },
      ...growth.figures(`test reports of ${size} MB`, database),
    ];
  } finally {
    await project.stop();
  }
}
