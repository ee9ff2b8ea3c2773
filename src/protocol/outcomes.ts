/** The file that configures a project, or what is wrong with it, in words. */
export type ConfigFile = { text: string } | { problem: string };

/** The metadata of a commit. */
export interface CommitMetadata {
  message: string;
  authorName: string;
  authorEmail: string;
  /** ISO 8601 with the author's offset. */
  authoredDate: string;
  committerName: string;
  committerEmail: string;
  committedDate: string;
}

/** A commit of the repository. */
export interface CommitReport extends CommitMetadata {
  sha: string;
  branches: string[];
  tags: string[];
  files: string[];
  /** The full name of the requested branch or tag. */
  ref: string | null;
  /** The repository's default branch, where the commit is on it. */
  defaultBranch?: string | null;
  /** The requested branch, or the likeliest one. */
  branch: string | null;
  /** The ref was built before at a commit that this one does not descend from. */
  overwritten: boolean;
  trunk: TrunkNews;
}

/**
 * Which commit is the newest built one of the repository's default branch: this one; still the one in the order; or
 * neither of them is on that branch.
 */
export type TrunkNews = 'this' | 'kept' | 'none';

export type Outcome =
  /** `config` where the order names a file; `before` is the order's `trunk`, which the commit was compared with. */
  | { kind: 'fetched'; commit: CommitReport; config?: ConfigFile & { before: string | null } }
  /** It cannot work before something outside changes; the log says what, or the message where there is no log. */
  | { kind: 'unfetchable'; reason: string; message?: string }
  /** The result of a check of a repository. */
  | { kind: 'looked'; defaultBranch: string | null; branches: string[]; files: string[] }
  /** This runner cannot run it with the required isolation; the log says why. */
  | { kind: 'unrunnable'; reason: string }
  | { kind: 'exited'; status: number; cache?: SavedCache }
  /** A command that has to run before the suite's command failed; the log says which and how. */
  | { kind: 'launch_failed' }
  | { kind: 'compiled'; digest: string }
  /** The archive or its command is unusable; the log says why. */
  | { kind: 'uncompilable' }
  | { kind: 'timed_out' }
  /** The build was ended because it exceeded a limit of the machine, such as memory. */
  | { kind: 'killed'; reason: string }
  /** The commit is on the remote branch, now or since before. */
  | { kind: 'pushed' }
  /** The commit is not there, and something outside must change first; the log says what. */
  | { kind: 'refused' }
  | { kind: 'cancelled' }
  /** It was ended because no more of its log or result could be stored. */
  | { kind: 'cut_short'; reason: CutReason }
  /** What it needs, or what it made, cannot pass through the store of the blobs now: it is tried again in a while. */
  | { kind: 'store_away' }
  /** The runner failed, not the work: it is tried again. `message` is for the operator. */
  | { kind: 'lost'; message: string };

/** Why work was ended early. */
export type CutReason = 'log_too_long' | 'disk_full';

/**
 * The answer to a chunk or an outcome: taken, not wanted any more, at a wrong offset, or the end of this log, with its
 * stored size.
 */
export type Receipt = { taken: true } | { gone: true } | { expected: number } | { refused: CutReason; size: number };

/** A part of the work, in milliseconds since the runner got the order: the clocks of both sides may be apart. */
export interface StepReport {
  /**
   * `checkout`, `software`, `image`, `launch NAME` for the launch command of a dependency, `command`, `reports` or
   * `artifacts`.
   */
  name: string;
  from: number;
  to: number;
}

/** A part of a log, by the offset of its first byte and of the first one behind it. */
export interface LogPart {
  from: number;
  to: number;
}

export interface FinishReport {
  claim: string;
  outcome: Outcome;
  logSize: number;
  /** When the parts of the work began and ended, where the order asks for it. */
  steps?: StepReport[];
  /** Where the files of a failed build are kept. */
  kept?: KeptFiles;
  /** Whether files of the build wait on the runner: they are brought under the same claim, and *uploaded* ends it. */
  uploads?: boolean;
  /** What the commands of a suite wrote of the log; the rest is the runner's own. */
  output?: LogPart;
}

/** The cache that a build leaves: the blob that was stored under its claim. */
export interface SavedCache {
  digest: string;
  /** The cache that the build began with. */
  began?: string;
}

/** Why files that waited on a runner never arrive. */
export const uploadsLost = ['too_late', 'no_room', 'not_taken', 'runner_gone'] as const;

/** What became of the files of a build that waited on its runner. */
export interface UploadReport {
  claim: string;
  cache?: SavedCache;
  /** Why some of it does not arrive. */
  lost?: (typeof uploadsLost)[number];
}

export interface KeptFiles {
  keeper: string;
  name: string;
  /** 256 bits, as hexadecimal digits. */
  key: string;
}
