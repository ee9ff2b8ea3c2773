import { lstatSync, opendirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { descendants } from './descendants.ts';
import type { Machine } from './machine.ts';
import type { Sandbox } from './sandbox.ts';
import { wholeRun, type Job, type Sealed } from './types.ts';
import { mountAll } from './workspace.ts';

/**
 * Puts what a run has written so far below what it writes from now on. The directories that the run writes to are moved
 * into a stage, which is a layer of the overlays that are then mounted over the old ones. Nothing is copied. No process
 * of the run may live then, because it could still write to the stage.
 *
 * A stage has the directories that `wholeRun` names, and the overlays' own. It cannot hold what root adds to the top of
 * an image, so such a run has no further stages. It also has none if it may make overlays of its own in its home.
 */
export interface Stages {
  /** Undefined if it is impossible at the moment. */
  seal: () => Promise<Sealed | undefined>;
  /** Whether the workspace was mounted again since the last call. */
  moved(): boolean;
}

const written = [wholeRun.workspace, wholeRun.home, wholeRun.tmp] as const;

export function openStages(machine: Machine, sandbox: Sandbox, job: Job): Stages {
  const { folder, stages, directories } = sandbox;
  const isPossible = 'checkout' in job.workspace && machine.overlay && !job.buildsImages;
  const inFolder = (name: string): string => join(folder, name);
  const atTop = topOf(inFolder(wholeRun.root));
  const ways = new Set((job.mounts ?? []).filter(({ file }) => file === undefined).flatMap(({ at }) => waysTo(at)));
  const isUntouched = (): boolean =>
    written.every((name) => isEmpty(inFolder(name))) &&
    (job.image === undefined || hasOnly(inFolder(wholeRun.image), ways));
  let seen = 0;
  // The shell that leads the steps must be able to enter the workspace again.
  const isClosed = (): boolean => (lstatSync(inFolder(wholeRun.workspace)).mode & 0o100) === 0;
  const sealed = (): Sealed => {
    const { workspace, home = [], tmp = [], imageLayers: { above = [] } = {} } = overStages(job, sandbox);
    const { checkout, over = [] } = workspace as Extract<Job['workspace'], { checkout: string }>;
    return {
      stages: stages.length,
      layers: { workspace: [checkout, ...over], home: [...home], tmp: [...tmp] },
      changesImage: () => above.some((layer) => !hasOnly(layer, ways)),
    };
  };
  return {
    async seal() {
      if (!isPossible || (await isBusy(sandbox)) || topOf(inFolder(wholeRun.root)) !== atTop) return undefined;
      if (isUntouched()) return sealed();
      if (isClosed()) return undefined;
      const name = `stage-${stages.length}`;
      directories.renew(name);
      stages.push(name);
      await mountAll(overStages(job, sandbox), sandbox, machine, { isAgain: true });
      return sealed();
    },
    moved() {
      const isMoved = stages.length > seen;
      seen = stages.length;
      return isMoved;
    },
  };
}

/** The run's job with its stages among the layers. */
export function overStages(job: Job, { folder, stages }: Pick<Sandbox, 'folder' | 'stages'>): Job {
  if (stages.length === 0 || !('checkout' in job.workspace)) return job;
  const { changes: _began, like: _like, ...rest } = job;
  const { workspace, home = [], tmp = [], imageLayers: { below = [], above = [] } = {} } = job;
  const layers = (name: string): string[] => stages.map((stage) => join(folder, stage, name));
  return {
    ...rest,
    workspace: { ...workspace, over: [...(workspace.over ?? []), ...layers(wholeRun.workspace)] },
    home: [...home, ...layers(wholeRun.home)],
    tmp: [...tmp, ...layers(wholeRun.tmp)],
    ...(job.image !== undefined && { imageLayers: { below, above: [...above, ...layers(wholeRun.image)] } }),
  };
}

/**
 * Whether a process of the run lives besides the shell that leads the steps. A process may start another one and end
 * while the list is read, so ended processes count only if the list stays the same.
 */
async function isBusy({ process, cgroup }: Sandbox): Promise<boolean> {
  const init = process.init();
  if (init === null) return true;
  // Usually only bubblewrap and that shell are in the group, which is one file to read.
  if (cgroup && cgroup.pids().every((pid) => pid === init || pid === process.pid)) return false;
  const ended = await descendants(init);
  if (ended.length === 0) return false;
  if (!ended.every(isZombie)) return true;
  const still = await descendants(init);
  return still.length !== ended.length || !still.every((pid) => ended.includes(pid) && isZombie(pid));
}

function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat[stat.lastIndexOf(')') + 2] === 'Z';
  } catch {
    return false;
  }
}

function isEmpty(folder: string): boolean {
  using opened = opendirSync(folder);
  return opened.readSync() === null;
}

/** Whether a directory has only these directories in it, by their paths from it. */
function hasOnly(folder: string, paths: ReadonlySet<string>, from = ''): boolean {
  return readdirSync(folder, { withFileTypes: true }).every(
    (entry) =>
      entry.isDirectory() &&
      paths.has(`${from}/${entry.name}`) &&
      hasOnly(join(folder, entry.name), paths, `${from}/${entry.name}`),
  );
}

function waysTo(path: string): string[] {
  const names = path.split('/').slice(1);
  return names.map((_, at) => `/${names.slice(0, at + 1).join('/')}`);
}

/** The entries of the root's own directory, if the run has one. */
function topOf(folder: string): string {
  if (!lstatSync(folder, { throwIfNoEntry: false })) return '';
  return readdirSync(folder).toSorted().join('/');
}
