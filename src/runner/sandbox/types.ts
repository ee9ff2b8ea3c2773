import type { WindowSize } from '../../shared/domain/shell-frames.ts';
import type { Written } from './step-files.ts';
import type { Terminal } from './terminal.ts';

/** The interface between the code that runs commands and the sandbox. */

export type Network = 'none' | 'internet' | 'host';

export interface SandboxOptions {
  /** A folder for the sandboxes only; the remains of a killed runner in it are swept at the next start. */
  stateDir: string;
  network: Network;
  /** `off` runs everything as plain processes of the runner's own user, for machines without isolation. */
  isolation: 'required' | 'off';
  log: (message: string) => void;
  /** No sandbox can be opened any more, for this reason. Runs that need one fail. */
  onLost?: ((error: Error) => void) | undefined;
  /** `bare` has only what programs need to start; by default /etc has the files that builds and their tools read. */
  etc?: 'bare';
  /** Private ranges that `internet` may reach too, as CIDR. */
  allow?: readonly string[];
  /** Directories of the machine that runs see read-only, at the same paths; config.ts says which are allowed. */
  paths?: readonly string[];
  /** The first ID of the runner's own range, where it has one (own-ids.ts). */
  ownId?: number | undefined;
  /** Why runs have one user ID, where the runner has no others; for its log. */
  whyOneId?: string | undefined;
  /** Only tries whether runs can be isolated: it makes no control groups. */
  isTrial?: boolean;
  /** How many sandboxes to prepare at once; more are made on demand. */
  prepare?: number;
  /** When less than this is free on the disk of the workspaces, the run that fills it is ended. */
  diskReserveBytes?: number;
}

export interface Step {
  name: string;
  command: string;
  /**
   * One in the `background` ends at once, and what it began goes on. A step `beside` it runs while that lives, and is heard
   * apart (`aside`); where it does not live any more, the run ends. One that is to `await` it ends with it.
   */
  kind?: 'background' | 'beside' | 'await';
  /** A program and its arguments, which runs in a directory in place of the command, without a shell of the image. */
  program?: { words: readonly string[]; directory: string };
}

export interface EndedStep {
  /** Its place in the job's steps. */
  at: number;
  status: number;
  /** What it wrote to add variables. */
  written: Written;
}

export interface NextStep {
  at: number;
  /** Variables besides those of the job. */
  environment: Readonly<Record<string, string>>;
}

export type Workspace =
  /** A directory that many runs share; each may change its view of it, and no change reaches the directory. */
  | {
      checkout: string;
      /** Directories that lie over it as layers, later ones on top. */
      over?: readonly string[];
      /** A directory with changes that are there when the run begins; it is moved away. */
      changes?: string | undefined;
    }
  /** A directory that the run changes in place. */
  | { directory: string }
  /** Directories that the run only reads, as layers, later ones on top. */
  | { layers: string[] }
  | { empty: true };

export interface Mount {
  /** The path inside the sandbox. */
  at: string;
  /** Read-only directories as layers, later ones on top. */
  layers?: string[];
  /** The layers belong to the machine: they keep their owners, and may be on any file system. */
  isOfTheMachine?: true;
  /** One directory that the run writes to. With layers, it lies on top and takes all writes. */
  writable?: string;
  /** One file, read-only, that covers one which is there. */
  file?: string;
  /** What the kernel tells of the machine, read-only. */
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
  /** Each is `sh -e -c command`, one after the other in one sandbox, in the workspace: a line that fails ends its step. */
  steps: Step[];
  /** The place of the step that is first, if it is not the first of them. */
  first?: number;
  /**
   * Says which step is next, after one has ended and what it said was delivered; undefined ends the run. It is not asked
   * when the run is being ended. Without it, steps run in their order until one fails.
   */
  next?: ((ended: EndedStep) => Promise<NextStep | undefined>) | undefined;
  environment: Record<string, string>;
  /** Small files that are there when its first step begins, and that only who runs can read; by their paths. */
  files?: Readonly<Record<string, string>>;
  /** Whether it runs a stranger's commands, which may install programs into the home and find them there. */
  isBuild?: true;
  workspace: Workspace;
  mounts?: Mount[];
  /** Who runs, in a sandbox with many users: root of it has some rights over all of their files. Otherwise the build's user. */
  user?: RunUser | undefined;
  /**
   * Whether it may make user namespaces of its own, and mounts in them, as programs do that build images. Only a run with many
   * users may.
   */
  buildsImages?: true | undefined;
  /** The files of an image, which stand in the sandbox instead of the machine's programs; the run may change its view. */
  image?: string | undefined;
  /** The texts of its /etc/passwd and /etc/group, in place of the image's own. */
  accounts?: Readonly<Record<'passwd' | 'group', string>>;
  /** What other runs changed in the same image: directories that lie below its files, and over them. */
  imageLayers?: { below: readonly string[]; above: readonly string[] };
  /** Directories that lie below the run's home, and below /tmp, as layers, later ones on top. */
  home?: readonly string[];
  tmp?: readonly string[];
  /** Directories whose mode and time the workspace and the home have at their top; as usual where there are none. */
  like?: Partial<Record<'workspace' | 'home', string | undefined>>;
  /**
   * The run has a terminal: its steps read from it, and what they write there is the output. `onOpen` hears of it before
   * they begin.
   */
  terminal?: { size: WindowSize; onOpen: (terminal: Pick<Terminal, 'type' | 'resize'>) => void } | undefined;
  limits: Limits;
  /** How long it may take to end once it was asked to, if not as long as usual. */
  graceMs?: number | undefined;
  /** Standard output and error in the order of the writes. Reading stops until a returned promise settles. */
  output: (chunk: Buffer) => void | Promise<void>;
  /** The same of the steps `beside` others, in place of `output`. Without it, nothing of them is read. */
  aside?: Job['output'];
  /** Hears when a step begins and ends, by its place in `steps`. */
  onStep?: ((at: number, what: 'start' | 'end') => void) | undefined;
  /**
   * Called when the sandbox of the run is there, before its first step: what is started beside it ends with it. A run in
   * which this throws has no steps.
   */
  before?: ((beside: Beside) => Promise<void>) | undefined;
  /** Hears that its own processes have ended, or are asked to. */
  onOver?: (() => void) | undefined;
  /** Hears of the files that the run left: all its processes are dead, and its files go when this has settled. */
  onLeft?: ((left: RunFiles, ended: Ended) => Promise<void>) | undefined;
  /** Ends the step that runs, and not the run: `next` is asked which one follows. */
  interrupt?: AbortSignal | undefined;
  signal: AbortSignal;
}

/** What a job begins with, besides its workspace. */
export type JobLayers = Pick<Job, 'imageLayers' | 'home' | 'tmp'>;

/** What stands beside a run: in its network, and within its limits. */
export interface Beside {
  /** Starts a job in a sandbox of its own, which is opened while what it begins with is looked for. */
  start(job: Job, layers?: Promise<JobLayers>): Neighbour;
}

export interface Neighbour {
  readonly ended: Promise<Ended>;
  /** Whether it takes connections at this port. */
  listens(port: number): Promise<boolean>;
}

/** The files that a run left. The runner itself opens none of them: a build made them. */
export interface RunFiles {
  /**
   * Runs a command of ours in another sandbox, which has no network, serves this once, and sees what the run left at the
   * same places, read-only: its workspace, and its home if that is asked for. The reason is `out_of_disk` if the files
   * have to go because others need the room.
   */
  inspect(inspection: Inspection): Promise<Ended>;
  /** The directories that its workspace and its home consist of, for others to look at as layers, read-only. */
  readonly layers: RunLayers;
  /**
   * Moves everything that the run has written to a new directory on the same file system, by a rename; see `wholeRun`.
   * Nothing else can be asked afterwards.
   */
  keepWhole(directory: string): Promise<void>;
}

/** Directories with others below them, the lowest first. */
export type RunLayers = Record<'workspace' | 'home', { below: readonly string[]; made: string }>;

/** Where the parts of a run stand in the directory that `keepWhole` made. Each is a layer. */
export const wholeRun = {
  workspace: 'changes',
  home: 'home',
  tmp: 'tmp',
  image: 'image-changes',
  root: 'root',
} as const;

export interface Inspection extends Pick<Job, 'limits' | 'output' | 'signal'> {
  command: string;
  /** Whether it sees the run's home too. */
  home?: boolean;
}

export type Reason = 'timed_out' | 'cancelled' | 'out_of_memory' | 'out_of_disk';

export interface Ended {
  /**
   * The exit status of the last step, as its shell reports it (128 plus the number of a signal that ended it); null
   * when the run was ended early.
   */
  exitStatus: number | null;
  /** The name of the last step that ran. */
  step: string;
  /** Addresses and ports that the network refused to a run that did not pass. */
  refused?: readonly string[];
  reason: Reason | null;
  /** Whether it did not end when it was asked to, and was killed. */
  wasForced?: true;
}

/** The owner that files of checkouts and writable directories must have, so that a run can change them. */
export interface Identity {
  uid: number;
  gid: number;
}

export interface Sandboxes {
  readonly owner: Identity;
  /** Why runs here cannot have an image; null where they can. */
  readonly whyNoImages: string | null;
  /** Whether a run can have many users, each with an ID; otherwise it has one ID, and everything in an image belongs to that. */
  readonly hasManyUsers: boolean;
  /** Whether the owners of files are translated for each run. Otherwise an image is unpacked for each user that runs in it. */
  readonly translatesOwners: boolean;
  /** Whether runs have a network of their own, in which others can stand beside them. */
  readonly hasOwnNetwork: boolean;
  /** Whether directories can lie over each other as layers here; without that, nothing that a run changes is kept. */
  readonly hasLayers: boolean;
  run(job: Job): Promise<Ended>;
  /** Gives a directory and its contents to the user of runs on this machine. */
  adopt(directory: string): Promise<void>;
  /** Ends all runs, and removes everything that was prepared. */
  close(): Promise<void>;
}

/** A program and its arguments. */
export type { Command } from '../../shared/lib/descriptors.ts';

/** The paths inside the sandbox. */
export const sandboxPaths = { workspace: '/build', home: '/home/build' } as const;

/** A file at the place of the workspace, which the workspace covers. */
export const noWorkspace = '.headrace-no-workspace';

/** How many user IDs, and group IDs, a run has of its own that is not the build's user. */
export const idsOfRun = 65_536;

export const buildUser = { name: 'build', uid: 1000, gid: 1000 } as const;

/** Who somebody is in a sandbox that has many users. */
export interface RunUser extends Identity {
  name: string;
  /** Further groups. */
  groups: readonly number[];
}

export const rootUser: RunUser = { name: 'root', uid: 0, gid: 0, groups: [] };

/** The default search path for programs. */
export const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * The same for builds: before it, the places in the home where `pip --user`, `pipx`, `npm -g`, `go install` and `cargo
 * install` put programs. Not for our own commands: a build could leave there what they would then run.
 */
export function buildPath(home: string = sandboxPaths.home): string {
  return `${home}/.local/bin:${home}/go/bin:${home}/.cargo/bin:${usualPath}`;
}

/** Without isolation nothing can be mounted. */
export class CannotMountError extends Error {
  override name = 'CannotMountError';
}

/** The time of a run was over before its first step. */
export class TimedOutError extends Error {
  override name = 'TimedOutError';
  override message = 'The time was over before all services were ready.';
}
