import type { WindowSize } from '../../shared/domain/shell-frames.ts';
import type { GroupUsage } from './cgroup-meter.ts';
import type { Door } from './door.ts';
import type { Written } from './step-files.ts';
import type { Terminal } from './terminal.ts';

export type Network = 'none' | 'internet' | 'host';

export interface SandboxOptions {
  /** For sandboxes only. Remains of a killed runner in it are removed at the next start. */
  stateDir: string;
  network: Network;
  /** `off`: plain processes of the runner's own user, for machines without isolation. */
  isolation: 'required' | 'off';
  log: (message: string) => void;
  /** Called when no sandbox can be opened any longer. Runs that need one fail from then on. */
  onLost?: ((error: Error) => void) | undefined;
  /** `bare`: only what programs need to start. By default /etc has the files that builds read. */
  etc?: 'bare';
  /** Private ranges (CIDR) that `internet` may reach too. */
  allow?: readonly string[];
  /** Visible to runs, read-only and at the same paths; config.ts limits them. */
  paths?: readonly string[];
  /** The first ID of the runner's own range (own-ids.ts). */
  ownId?: number | undefined;
  whyOneId?: string | undefined;
  /** Only tests whether runs can be isolated: it makes no control groups. */
  isTrial?: boolean;
  /** Sandboxes prepared in advance; more are made on demand. */
  prepare?: number;
  /** If the workspaces' disk has less free space, the run that fills it is ended. */
  diskReserveBytes?: number;
}

export interface Step {
  name: string;
  command: string;
  /**
   * A `background` step ends at once, and its process continues. A `probe` runs while that process lives, and
   * sends its output to `aside`. If the process has ended, the run ends. An `await` step ends with the process.
   */
  kind?: 'background' | 'probe' | 'await';
  /** Replaces the command. Runs in `directory`, without a shell of the image. */
  program?: { argv: readonly string[]; directory: string };
}

export interface EndedStep {
  at: number;
  status: number;
  written: Written;
  /** Puts all that the run has written into layers. Undefined if a process lives. */
  seal?: (() => Promise<Sealed | undefined>) | undefined;
}

/** What a run has at a moment between its steps. Nobody writes to these directories any more. */
export interface Sealed {
  /** How many stages hold what it has written. */
  stages: number;
  /** All that it sees, lowest first. */
  layers: Record<'workspace' | 'home' | 'tmp', readonly string[]>;
  /** Whether it has written elsewhere in its image. */
  changesImage: () => boolean;
}

export interface NextStep {
  at: number;
  /** In addition to the job's variables. */
  environment: Readonly<Record<string, string>>;
}

export type Workspace =
  /** Shared by many runs: each sees its own changes, and none reach the directory. */
  | {
      checkout: string;
      /** Layers over it, later ones on top. */
      over?: readonly string[];
    }
  /** The run changes it in place. */
  | { directory: string }
  /** Read-only layers, later ones on top. */
  | { layers: string[] }
  | { empty: true };

export interface Mount {
  at: string;
  /** Read-only, later ones on top. */
  layers?: string[];
  /** The layers belong to the machine: they keep their owners and may be on any file system. */
  isOfTheMachine?: true;
  /** A directory that the run writes to. It is above the layers, if any, and takes all writes. */
  writable?: string;
  /** A read-only file that covers an existing one. */
  file?: string;
  /** Read-only, and no part of what the run leaves, like its mount point. */
  isLent?: true;
  /** Read-only `/sys` of the machine. */
  isSys?: true;
}

export interface Limits {
  memoryBytes: number;
  processes: number;
  timeoutMs: number;
}

export interface Job {
  /** Unique among the current runs; letters, digits, `_` and `-`. */
  id: string;
  /** Each is `sh -e -c command`. They run in turn in one sandbox, in the workspace. */
  steps: Step[];
  /** Index of the first step to run (default 0). */
  first?: number;
  /**
   * Called when a step has ended and its output was delivered, except while the run is being ended. The result
   * `undefined` ends the run. By default, steps run in order until one fails.
   */
  next?: ((ended: EndedStep) => Promise<NextStep | undefined>) | undefined;
  /** What it writes can become layers between its steps (stages.ts). */
  isStaged?: boolean;
  environment: Record<string, string>;
  /** Small files by path, present before the first step, that only the run's user can read. */
  files?: Readonly<Record<string, string>>;
  /** Runs untrusted commands, which may install programs into the home and find them there. */
  isBuild?: true;
  workspace: Workspace;
  mounts?: Mount[];
  /** The user in a sandbox with many users. Root has some rights over all their files. Default: the build's user. */
  user?: RunUser | undefined;
  /** May make user namespaces with mounts, to build images. Only for a run with many users. */
  buildsImages?: true | undefined;
  /** Files that replace the machine's programs; the run may change its own view of them. */
  image?: string | undefined;
  /** Texts of /etc/passwd and /etc/group that replace the image's. */
  accounts?: Readonly<Record<'passwd' | 'group', string>>;
  /** Changes of other runs to the same image: directories below and over its files. */
  imageLayers?: { below: readonly string[]; above: readonly string[] };
  /** Layers below the run's home and below /tmp, later ones on top. */
  home?: readonly string[];
  tmp?: readonly string[];
  /** Changes in a checkout and the home that are present when the run begins. The directories are moved away. */
  changes?: Partial<Record<'workspace' | 'home', string | undefined>> | undefined;
  /** The top directories of the workspace and the home get the mode and time of these directories. */
  like?: Partial<Record<'workspace' | 'home', string | undefined>>;
  /** The terminal that steps read from and write to. `onOpen` is called before they begin. */
  terminal?: { size: WindowSize; onOpen: (terminal: Pick<Terminal, 'type' | 'resize'>) => void } | undefined;
  /** Opened in a network with access to the outside. */
  door?: Door | undefined;
  limits: Limits;
  /** The time that the run has to end after SIGTERM. */
  graceMs?: number | undefined;
  /** Standard output and error in the order of the writes. Reading stops until a returned promise settles. */
  output: (chunk: Buffer) => void | Promise<void>;
  /** The output of probes. Without it, that output is not read. */
  aside?: Job['output'];
  /** `at` is the index in `steps`. `used` comes with the end. */
  onStep?: ((at: number, what: 'start' | 'end', used?: GroupUsage) => void) | undefined;
  /** Called before the first step. Sidecars end with the run. If this throws, no step runs. */
  before?: ((sidecars: Sidecars) => Promise<void>) | undefined;
  /** Called when the run's own processes have ended, or are asked to end. May be called more than once. */
  onOver?: (() => void) | undefined;
  /** Called when all processes are dead. The files are removed after the promise has settled. */
  onLeft?: ((left: RunFiles, ended: Ended) => Promise<void>) | undefined;
  /** Ends only the current step: `next` is called for the next one. */
  interrupt?: AbortSignal | undefined;
  signal: AbortSignal;
}

export type JobLayers = Pick<Job, 'imageLayers' | 'home' | 'tmp'>;

export interface Sidecars {
  /** The job's own sandbox is opened while `layers` is still pending. */
  start(job: Job, layers?: Promise<JobLayers>): Sidecar;
}

export interface Sidecar {
  readonly ended: Promise<Ended>;
  listens(port: number): Promise<boolean>;
}

/** The runner itself opens none of these files: a build made them. */
export interface RunFiles {
  /**
   * Runs our command in a new sandbox without a network, which sees these files read-only. If the disk gets full, it
   * may end with `out_of_disk` to make room.
   */
  inspect(inspection: Inspection): Promise<Ended>;
  readonly layers: RunLayers;
  /** What the steps wrote to the summary, from its beginning: at most `bytes.summaryRead`. */
  summary(): Buffer;
  /** Directories in what `keepWhole` moves, each like the whole: layers below it, later ones on top. */
  readonly stages: readonly string[];
  /** Moves all files to a new directory on the same file system, by a rename. Must be the last call. */
  keepWhole(directory: string): Promise<void>;
}

/** The layers that the run began with, and those that it wrote. Both have the lowest first. */
export type RunLayers = Record<'workspace' | 'home', { below: readonly string[]; made: readonly string[] }>;

/** The names of a run's layers in the directory that `keepWhole` made. */
export const wholeRun = {
  workspace: 'changes',
  home: 'home',
  tmp: 'tmp',
  image: 'image-changes',
  root: 'root',
} as const;

export interface Inspection extends Pick<Job, 'limits' | 'output' | 'signal'> {
  command: string;
  home?: boolean;
}

export type Reason = 'timed_out' | 'cancelled' | 'out_of_memory' | 'out_of_disk';

/** Of the run and its services. Undefined parts cannot be measured on this machine. */
export interface Usage extends GroupUsage {
  diskWritten?: number | undefined;
  networkReceived?: number | undefined;
  networkSent?: number | undefined;
}

export interface Ended {
  /** The last step's status as its shell reports it (128 plus a signal's number); null if the run was ended early. */
  exitStatus: number | null;
  step: string;
  /** Addresses and ports that the network refused, of a run that did not pass. */
  refused?: readonly string[];
  reason: Reason | null;
  used?: Usage;
  /** The run did not end after SIGTERM, and was killed. */
  wasForced?: true;
}

/** Checkouts and writable directories must have this owner, so that a run can change them. */
export interface Identity {
  uid: number;
  gid: number;
}

export interface Sandboxes {
  readonly owner: Identity;
  /** Null if runs here can have an image. */
  readonly whyNoImages: string | null;
  /** Whether a run can have many user IDs. Otherwise everything in an image belongs to its only ID. */
  readonly hasManyUsers: boolean;
  /** Whether file owners are translated for each run. Otherwise an image is unpacked for each user in it. */
  readonly translatesOwners: boolean;
  /** Whether a run has its own network, which its services share. */
  readonly hasOwnNetwork: boolean;
  readonly isIsolated: boolean;
  /** Whether overlays work. Without them, no changes of a run can be stored. */
  readonly hasLayers: boolean;
  run(job: Job): Promise<Ended>;
  adopt(directory: string): Promise<void>;
  close(): Promise<void>;
}

export type { Command } from '../../shared/lib/descriptors.ts';

export const sandboxPaths = { workspace: '/build', home: '/home/build' } as const;

/** If this file is visible at the workspace's path, the workspace is not mounted. */
export const noWorkspace = '.headrace-no-workspace';

/** User IDs, and group IDs, of a run with many users. */
export const idsOfRun = 65_536;

export const buildUser = { name: 'build', uid: 1000, gid: 1000 } as const;

export interface RunUser extends Identity {
  name: string;
  groups: readonly number[];
}

export const rootUser: RunUser = { name: 'root', uid: 0, gid: 0, groups: [] };

export const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Includes the folders that `pip`, `npm` and similar tools install to. Only for builds: a build could put programs
 * there that our own commands would run.
 */
export function buildPath(home: string = sandboxPaths.home): string {
  return `${home}/.local/bin:${home}/go/bin:${home}/.cargo/bin:${usualPath}`;
}

/** Without isolation nothing can be mounted. */
export class CannotMountError extends Error {
  override name = 'CannotMountError';
}

export class TimedOutError extends Error {
  override name = 'TimedOutError';
  override message = 'The build’s time limit passed before all services were ready.';
}
