import { mkdirSync } from 'node:fs';
import { copyFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { rootUser, type Job, type Sandboxes } from '../src/runner/sandbox/types.ts';
import { imageOf, shellLayer, startRegistry } from '../test/support/registry.ts';
import { startBuilding } from './support/building.ts';
import type { DatabaseName, Databases } from './support/databases.ts';
import { median, round, type Figure } from './support/report.ts';
import { call } from './support/servers.ts';
import { openBenchSandboxes } from './support/sandboxes.ts';

const runs = 100;
const builds = 60;

/** Time from a run's order to its end: in an image that the runner has, also as root, and without one, in turns. */
export async function startInImage(): Promise<Figure[]> {
  // A sandbox that is opened ahead is prepared for the kind of the run before. So each kind has its own sandboxes.
  await using one = await openBenchSandboxes(1);
  await using other = await openBenchSandboxes(1);
  await using third = await openBenchSandboxes(1);
  const tree = join(one.folder, 'image');
  const checkout = join(one.folder, 'checkout');
  for (const place of ['bin', 'etc', 'usr/bin', 'usr/lib', 'opt', 'root', 'srv', 'sbin', 'lib', '../checkout'])
    mkdirSync(join(tree, place), { recursive: true });
  await copyFile('/bin/busybox', join(tree, 'bin/busybox'));
  await symlink('busybox', join(tree, 'bin/sh'));
  for (const folder of [tree, checkout]) await one.sandboxes.adopt(folder);
  const [within, without, asRoot]: [number[], number[], number[]] = [[], [], []];
  for (let turn = 0; turn < runs; turn += 1) {
    without.push(await timeOf(other.sandboxes, { workspace: { checkout } }));
    within.push(await timeOf(one.sandboxes, { workspace: { checkout }, image: tree }));
    asRoot.push(await timeOf(third.sandboxes, { workspace: { checkout }, image: tree, user: rootUser }));
  }
  const ofImage: Figure = {
    what: 'start in an image that the runner has, over one without (the sandbox alone)',
    value: median(within) / median(without),
    limit: { atMost: 1.15 },
    from: `${round(median(within))} ms against ${round(median(without))} ms, in turns`,
  };
  const ofRoot: Figure = {
    what: 'start in an image as root, over one as the user of builds (the sandbox alone)',
    value: median(asRoot) / median(within),
    limit: { atMost: 1.1 },
    from: `${round(median(asRoot))} ms against ${round(median(within))} ms, in turns`,
  };
  return [ofImage, ofRoot];
}

async function timeOf(sandboxes: Sandboxes, of: Pick<Job, 'workspace' | 'image' | 'user'>): Promise<number> {
  // The next sandbox is opened after a run. A runner has this time between two builds.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const job: Job = {
    id: `bench-${Math.random().toString(36).slice(2)}`,
    steps: [{ name: 'command', command: ':' }],
    environment: {},
    limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, timeoutMs: 60_000 },
    output: () => {},
    signal: new AbortController().signal,
    ...of,
  };
  const startedAt = performance.now();
  const { exitStatus } = await sandboxes.run(job);
  if (exitStatus !== 0) throw new Error('the run did not succeed');
  return performance.now() - startedAt;
}

/**
 * Time from the request for a build to the first byte of its command, in an image that the runner has and without one.
 * With a tag, this includes a call to the registry for every build. The registry is on this machine, with a password.
 */
export async function buildsInImage(databases: Databases, database: DatabaseName): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const registry = await startRegistry();
  stack.defer(() => registry.close());
  const start = async (): ReturnType<typeof startBuilding> => {
    const settings = { ...(await databases.settingsFor(database)), HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8' };
    const building = await startBuilding('echo hello', settings);
    stack.defer(() => building.stop());
    return building;
  };
  const [one, other] = [await start(), await start()];
  const digest = await registry.push('bench', '1', imageOf([shellLayer()]));
  await call(one.service, '/registries', { host: registry.host, ...registry.user });
  const inImage = (reference: string): Promise<void> => one.change({ image: `${registry.host}/${reference}` });
  const [byTag, byDigest, without]: [number[], number[], number[]] = [[], [], []];
  const measure = async (into: number[], building: typeof one): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    into.push(await building.firstByte(undefined, 'hello'));
  };
  const turn = async (): Promise<void> => {
    await measure(without, other);
    await inImage('bench:1');
    await measure(byTag, one);
    await inImage(`bench@${digest}`);
    await measure(byDigest, one);
  };
  await turn(); // pulls the image
  for (const times of [byTag, byDigest, without]) times.length = 0;
  for (let done = 0; done < builds; done += 1) await turn();
  const [tagged, pinned, bare] = [byTag, byDigest, without].map(median) as [number, number, number];
  const over = (inImage: number, from: string): Pick<Figure, 'value' | 'from'> => ({
    value: inImage / bare,
    from: `${round(inImage)} ms against ${round(bare)} ms, in turns${from}`,
  });
  return [
    {
      what: `request to the first byte of a command in an image that the runner has, by its digest, over one without (${database})`,
      limit: { atMost: 1.15 },
      ...over(pinned, ''),
    },
    {
      what: `request to the first byte of a command in an image that the runner has, by its tag, over one without (${database})`,
      limit: { atMost: 2 },
      ...over(tagged, '; the call at the registry is a part of it'),
    },
  ];
}
