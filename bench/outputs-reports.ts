import type { DatabaseName, Databases } from './support/databases.ts';
import { watchGrowth } from './support/growth.ts';
import { startProject } from './support/project.ts';
import type { Figure } from './support/report.ts';
import { call } from './support/servers.ts';

const size = 200;
const tests = 50_000;
const rounds = 3;
const line = 'a line of output\\n';
const linesPerTest = Math.round((size * 1e6) / tests / (line.length - 1));

/** Most of a large report is what its tests have printed. */
const reportOf = (count: number): string =>
  `perl -e 'my $said = "${line}" x ${linesPerTest}; print "<testsuite>"; print qq(<testcase name="test $_" time="0.1"><system-out>$said</system-out></testcase>) for 1..${count}; print "</testsuite>"' > report.xml`;

/** In how much memory the report of a large suite is read and kept. */
export async function reports(databases: Databases, database: DatabaseName): Promise<Figure[]> {
  const project = await startProject({}, await databases.settingsFor(database));
  const { service } = project;
  const build = async (count: number): Promise<void> => {
    await project.command(reportOf(count));
    const at = await project.build();
    await project.end(at);
    const { tests_passed: passed } = await call<{ tests_passed: number }>(service, at);
    if (passed !== count) throw new Error(`${passed} tests were counted, not ${count}`);
  };
  try {
    await call(service, project.suite, { 'reports[]': 'report.xml' }, 'PUT');
    await build(100); // until the code is loaded
    using growth = watchGrowth(service, project.runnerPid());
    for (let turn = 0; turn < rounds; turn += 1) await build(tests);
    return growth.figures(`test reports of ${size} MB`, database);
  } finally {
    await project.stop();
  }
}
