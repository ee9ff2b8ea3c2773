/** What those who run commands say to the sandbox, and what it answers. */

export type Network = 'none' | 'internet' | 'host';

export interface SandboxOptions {
  /** A folder for the sandboxes alone; what a killed runner left in it is swept at the next opening. */
  stateDir: string;
  network: Network;
  /** `off` runs everything as plain processes of the runner's own user: for machines that cannot isolate. */
  isolation: 'required' | 'off';
  log: (message: string) => void;
  /** `bare` holds no more than programs need to start; by default /etc has what builds and their tools read. */
  etc?: 'bare';
  /** Private ranges that `internet` leads to as well, as CIDR. */
  allow?: readonly string[];
  /** Directories of the machine that runs see read-only, where they are; config.ts says which can be. */
  paths?: readonly string[];
  /** How many sandboxes to prepare at once; more are made when they are needed. */
  prepare?: number;
  /** When less than this is free where workspaces lie, the run that fills the disk is ended. */
  diskReserveBytes?: number;
}

export interface Step {
  name: string;
  command: string;
}

export type Workspace =
  /** A directory that many runs share; each sees it as its own to change, and no change reaches it. */
  | { checkout: string }
  /** A directory that the run changes in place. */
  | { directory: string }
  | { empty: true };

export interface Mount {
  /** Where the sandbox sees it. */
  at: string;
  /** Read-only directories, laid over each other, later ones on top. */
  layers?: string[];
  /** The layers are the machine's own: they keep their owners, and may lie on any file system. */
  isOfTheMachine?: true;
  /** One directory that the run writes to. Where there are layers too, it lies over them and takes all that is written. */
  writable?: string;
}

export interface Limits {
  memoryBytes: number;
  processes: number;
  timeoutMs: number;
  /** How many processors' worth of time; none given, no limit. */
  cpus?: number;
}

export interface Job {
  /** Unique among the runs of the moment; letters, digits, `_` and `-`. */
  id: string;
  /** Each is `sh -c command`, in order, in one sandbox, in the workspace. The first that fails ends the run. */
  steps: Step[];
  environment: Record<string, string>;
  workspace: Workspace;
  mounts?: Mount[];
  limits: Limits;
  /** Standard output and error in the order they were written. Nothing more is read until a returned promise is settled. */
  output: (chunk: Buffer) => void | Promise<void>;
  signal: AbortSignal;
}

export type Reason = 'timed_out' | 'cancelled' | 'out_of_memory' | 'out_of_disk';

export interface Ended {
  /** Of the last step that ran, as its shell reports it (128 and the signal's number, where a signal ended it); null when it was made to end. */
  exitStatus: number | null;
  /** The name of the last step that ran. */
  step: string;
  reason: Reason | null;
}

/** Whom the files of checkouts and writable directories must belong to, for a run to change them. */
export interface Identity {
  uid: number;
  gid: number;
}

export interface Sandboxes {
  readonly owner: Identity;
  run(job: Job): Promise<Ended>;
  /** Gives a directory with all that is in it to the user that runs have on this machine. */
  adopt(directory: string): Promise<void>;
  /** Ends what runs, and takes down everything that was prepared. */
  close(): Promise<void>;
}

/** A program and its arguments. */
export type { Command } from '../../lib/descriptors.ts';

/** Where the sandbox has its places. */
export const places = { workspace: '/build', home: '/home/build' } as const;

/** Lies where the workspace will be, and is covered by it. */
export const noWorkspace = '.headrace-no-workspace';

export const buildUser = { name: 'build', uid: 1000, gid: 1000 } as const;

/** Where programs are looked for when nobody says otherwise. */
export const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Without isolation nothing can be mounted. */
export class CannotMountError extends Error {
  override name = 'CannotMountError';
}
