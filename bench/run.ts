import { openDatabases } from './support/databases.ts';
import { holds, line, type Benchmark } from './support/report.ts';
import { cli } from './cli.ts';
import { fetches } from './fetches.ts';
import { largestHolds } from './holds.ts';
import { builds } from './builds.ts';
import { filesOfSuites } from './files.ts';
import { forges } from './forges.ts';
import { incremental } from './incremental.ts';
import { graphs } from './graphs.ts';
import { outputs } from './outputs.ts';
import { reads } from './reads.ts';
import { followers } from './followers.ts';
import { workspaces } from './workspaces.ts';
import { logs } from './logs.ts';
import { logDiff } from './log-diff.ts';
import { logSearch } from './log-search.ts';
import { lists } from './lists.ts';
import { reuse } from './reuse.ts';
import { scale } from './scale.ts';
import { writes } from './writes.ts';
import { software } from './software.ts';
import { services } from './services.ts';
import { start } from './start.ts';
import { stepCosts } from './steps.ts';
import { uploads } from './uploads.ts';
import { triggers } from './triggers.ts';
import { web } from './web.ts';
import { webhooks } from './webhooks.ts';

const benchmarks: Benchmark[] = [
  reads,
  writes,
  lists,
  start,
  builds,
  stepCosts,
  services,
  graphs,
  filesOfSuites,
  reuse,
  fetches,
  logs,
  logDiff,
  logSearch,
  followers,
  workspaces,
  incremental,
  uploads,
  software,
  outputs,
  web,
  webhooks,
  triggers,
  forges,
  cli,
  largestHolds,
  scale,
];

// The benchmark has just made the certificate on this machine.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
process.removeAllListeners('warning');

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (unknown.length > 0)
  throw new Error(`no benchmark ${unknown.join(', ')}: ${benchmarks.map((one) => one.name).join(', ')}`);

let missed = 0;
const databases = openDatabases();
try {
  for (const benchmark of benchmarks) {
    if (wanted.length > 0 && !wanted.includes(benchmark.name)) continue;
    for (const figure of await benchmark.run(databases)) {
      console.log(line(figure));
      if (!holds(figure)) missed += 1;
    }
  }
} finally {
  await databases.close();
}
process.exitCode = missed > 0 ? 1 : 0;
