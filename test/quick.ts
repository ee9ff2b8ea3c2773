import { needsOf } from './support/needs.ts';

/**
 * The quick run (`npm test`). It has every test file whose imports need no more of the machine than this, except those of
 * the folders and files below. Without python3 or sshd it skips some of them.
 */
const always = [
  'isolation',
  'isolated runner',
  'openssl',
  'git',
  'ssh',
  'ssh-keygen',
  'bwrap',
  'bsdtar',
  'slirp4netns',
  'nft',
];
const needs = new Set([...always, 'python3', 'sshd']);

/** These folders hold long stories, or many tests of one thing. The quick run has only `samples` of them. */
const folders = ['test/deploy/', 'test/faults/', 'test/journeys/', 'test/runner/git/', 'test/s3/'];

const journeys = ['builds', 'deploys', 'first-build', 'hooks', 'steps'];
const git = 'check-access checkout commit-object fetch https names progress push sessions words'.split(' ');
const samples = [
  ...journeys.map((name) => `test/journeys/${name}.test.ts`),
  ...git.map((name) => `test/runner/git/${name}.test.ts`),
];

/** These take long, or are about PostgreSQL. */
const others = [
  'test/server/api/holds.test.ts',
  'test/server/auth/leavers.test.ts',
  'test/server/auth/organisation-builds.test.ts',
  'test/server/dispatch/reuse.test.ts',
  'test/cli/json.test.ts',
  'test/cli/operator/base-url.test.ts',
  'test/cli/operator/bundle.test.ts',
  'test/cli/operator/once.test.ts',
  'test/cli/operator/isolation.test.ts',
  'test/cli/operator/program.test.ts',
  'test/cli/operator/starting.test.ts',
  'test/cli/operator/stopping.test.ts',
  'test/cli/operator/ways-to-stop.test.ts',
  'test/cli/developer/hostile.test.ts',
  'test/cli/developer/init.test.ts',
  'test/cli/developer/package.test.ts',
  'test/cli/developer/terminal.test.ts',
  'test/server/db/outage.test.ts',
  'test/server/dispatch/runner-shares.test.ts',
  'test/server/forges/day.test.ts',
  'test/server/forges/pull-request-notes.test.ts',
  'test/server/lifecycle/rollup.test.ts',
  'test/server/oidc/gitea.test.ts',
  'test/server/oidc/hostile-issuer.test.ts',
  'test/server/oidc/invited.test.ts',
  'test/server/oidc/look-again.test.ts',
  'test/server/resources/transfer-attacks.test.ts',
  'test/docs/recipes.test.ts',
  'test/server/briefs/corpus.test.ts',
  'test/server/briefs/hostile.test.ts',
  'test/server/dispatch/reuse.test.ts',
  'test/runner/step-points.test.ts',
  'test/monitoring/traced-program.test.ts',
  'test/runner/incremental.test.ts',
  'test/runner/services-attacks.test.ts',
  'test/runner/suite-cache.test.ts',
  'test/runner/suite-files.test.ts',
  'test/upkeep/wrong-key.test.ts',
];

export function isQuick(file: string): boolean {
  if (folders.some((folder) => file.startsWith(folder))) return samples.includes(file);
  return !others.includes(file) && [...needsOf(file)].every((need) => needs.has(need));
}
