import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { randomName } from '../../shared/lib/random-name.ts';
import type { DiskWatch } from './disk.ts';
import type { Machine } from './machine.ts';
import { runInSandbox, writtenBy } from './run.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import { overStages } from './stages.ts';
import {
  rootUser,
  sandboxPaths,
  wholeRun,
  type Inspection,
  type Job,
  type RunFiles,
  type RunLayers,
  type Mount,
  type Workspace,
} from './types.ts';

/** Must be called when no process of the run is left. */
export function filesOfRun(machine: Machine, sandbox: Sandbox, job: Job, disk: DiskWatch): RunFiles {
  return {
    async inspect(inspection) {
      // The files outlast their run, so they still count as data of that run if the disk gets full.
      const full = new AbortController();
      const unwatch = disk.watch({ folders: writtenBy(job, sandbox.folder), end: () => full.abort() });
      try {
        const signal = AbortSignal.any([inspection.signal, job.signal, full.signal]);
        const ended = await lookAt(machine, sandbox, job, disk, { ...inspection, signal });
        return full.signal.aborted && ended.reason === 'cancelled' ? { ...ended, reason: 'out_of_disk' } : ended;
      } finally {
        unwatch();
      }
    },
    layers: layersOf(sandbox, job),
    summary: () => sandbox.process.stepFiles.summary(),
    stages: sandbox.stages,
    keepWhole: (directory) => rename(sandbox.folder, directory),
  };
}

function layersOf({ folder, stages }: Sandbox, { workspace, home = [] }: Job): RunLayers {
  const below = 'checkout' in workspace ? [workspace.checkout, ...(workspace.over ?? [])] : [];
  const made = (name: string): string[] => [...stages, ''].map((stage) => join(folder, stage, name));
  return {
    workspace: { below, made: made(wholeRun.workspace) },
    home: { below: home, made: made(wholeRun.home) },
  };
}

async function lookAt(machine: Machine, ran: Sandbox, whole: Job, disk: DiskWatch, inspection: Inspection) {
  const { folder } = ran;
  const job = overStages(whole, ran);
  const machineWithout: Machine = { ...machine, paths: [], connect: undefined, network: 'none' };
  const sandbox = await openSandbox(machineWithout, randomName(), { user: rootUser });
  try {
    const home: Mount[] = inspection.home
      ? [{ at: sandboxPaths.home, layers: [...(job.home ?? []), join(folder, 'home')] }]
      : [];
    const seen = [sandboxPaths.workspace, ...home.map(({ at }) => at)];
    const own = (job.mounts ?? []).filter(({ isLent }) => !isLent);
    const inside = own.filter(({ at }) => seen.some((place) => at.startsWith(`${place}/`)));
    const look: Job = {
      ...inspectionJob(inspection),
      workspace: { layers: workspaceLayers(job.workspace, folder, machine) },
      mounts: [...home, ...inside.map((mount) => readOnly(mount, machine))],
    };
    return await runInSandbox(machineWithout, sandbox, look, disk);
  } finally {
    await sandbox.close();
  }
}

/** Runs as root, which may read the files of all users of the run. */
export function inspectionJob({ command, limits, output, signal }: Inspection): Omit<Job, 'workspace'> {
  const steps = [{ name: 'inspect', command }];
  return { id: randomName(), steps, user: rootUser, environment: {}, limits, output, signal };
}

/** The workspace's layers, as `mountAll` made them. */
function workspaceLayers(workspace: Workspace, folder: string, { overlay }: Machine): string[] {
  if ('directory' in workspace) return [workspace.directory];
  if ('layers' in workspace) return workspace.layers;
  if ('checkout' in workspace && overlay)
    return [workspace.checkout, ...(workspace.over ?? []), join(folder, 'changes')];
  return [join(folder, 'workspace')];
}

/** Without overlays, the layers below a writable directory were copied into it. */
function readOnly({ writable, layers = [], ...mount }: Mount, { overlay }: Machine): Mount {
  if (writable === undefined) return { ...mount, layers };
  return { ...mount, layers: overlay ? [...layers, writable] : [writable] };
}
