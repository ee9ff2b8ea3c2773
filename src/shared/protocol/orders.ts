export const workKinds = [
  'fetch_commit',
  'run_suite',
  'compile_dependency',
  'push_deploy',
  'check_connection',
  'pack_files',
] as const;

export type WorkKind = (typeof workKinds)[number];

/** A repository, and the project that its work trees belong to. */
export interface Repository {
  projectId: string;
  repositoryUrl: string;
}

/** What opens a repository. */
export interface Access {
  /** Over SSH. */
  privateKey: string;
  /** Over HTTPS, where not anybody may read it. */
  credential?: HttpsCredential;
}

export interface HttpsCredential {
  username: string;
  password: string;
}

export interface Source extends Repository, Access {}

/** What a commit is compared with, to tell which files changed. */
export type Comparison =
  /** What its branch had; where that is gone, where it left the default branch. */
  | { before: string }
  /** Where it left this branch; the default branch where it is null. */
  | { leaving: string | null }
  /** Its first parent on the default branch, and elsewhere where it left that. */
  | { asked: true };

export interface FetchOrder {
  kind: 'fetch_commit';
  source: Source;
  commitRef: string;
  /** The full name of the ref that reaches the commit, where `commitRef` is a SHA that came together with the ref. */
  fetchRef?: string;
  /** The commits of refs when they were last built, by the refs' full names. */
  previous: Record<string, string>;
  /** The newest built commit of the default branch so far. */
  defaultHead: string | null;
  /** The file that says how the commit is built, and on the default branch configures the project. */
  configFile?: string;
  /** What the files of the commit are compared with. */
  compare: Comparison;
}

/** The image whose files stand in the sandbox instead of the machine's programs. */
export interface ImageOrder {
  /** As it was set; domain/image-reference.ts has the form. */
  reference: string;
  /** The account whose image it is: no other account's pull serves for it. */
  accountId: string;
}

/** The account's credentials for the registry of a claim's image; without a user name it has none. */
export interface RegistryAccess {
  /** The registry that they are for, and no other may be sent them. */
  host: string;
  username?: string;
  password?: string;
}

/** The build may make user namespaces and mounts of its own, as programs do that build images. */
export interface ImageBuildsOrder {
  /** The registries of its account, with what opens them. */
  registries: Required<RegistryAccess>[];
}

export interface SuiteOrder {
  kind: 'run_suite';
  /** Its key is requested only if the commit has to be fetched. */
  source: Repository;
  sha: string;
  /** The full name of the ref that reaches the commit, where no branch or tag does. */
  fetchRef?: string;
  /** Whether the commit comes from a fork. Where this is not said, it counts as one that does. */
  isFork?: boolean;
  /** The commands of the suite, in their order; at least one. */
  steps: StepOrder[];
  environment: Record<string, string>;
  /** The values to mask in the log. */
  secrets: string[];
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** The software in the sandbox; of several at one prefix, later ones lie over earlier ones. */
  software: Software[];
  /** The prefixes in the order in which programs and libraries are searched. */
  prefixes: string[];
  /** The commands that run before the suite's steps, in this order. */
  launches: { name: string; command: string }[];
  /** Whether the report is to say when its steps began and ended. */
  isTraced?: boolean;
  image?: ImageOrder;
  /** Whether it is root there, or is not; otherwise the image says who runs. */
  root?: boolean;
  imageBuilds?: ImageBuildsOrder;
  /** The files to keep, and how much of them. */
  artifacts?: { globs: string[]; mostFiles: number; mostBytes: number };
  /** What the suite keeps from build to build, if it keeps anything. */
  cache?: CacheOrder;
  /** The patterns of the files in the workspace that are reports of tests. */
  reports?: string[];
  /** The files that it begins with, in the place of the commit's alone. */
  files?: FilesOrder;
  keep?: KeepOrder;
  /** What runs beside it, in its network. */
  services?: ServiceOrder[];
}

/** What runs beside a build: it is ready before the first step, and gone when the build is over. */
export interface ServiceOrder {
  name: string;
  /** The image whose files it has; without one, the machine's programs and the software. */
  image?: ImageOrder;
  software: Software[];
  prefixes: string[];
  /** Blank for what the image says. */
  command: string;
  environment: Record<string, string>;
  /** 0 for the first port that the image names. */
  readyPort: number;
  /** Blank for none. */
  readyCommand: string;
  readyTimeoutSeconds: number;
  /** What fills it, in the build's files; blank for nothing. */
  prepare: string;
  prepareInputs: string[];
  /** The directories that are kept after that. */
  data: string[];
  /** What it may begin with, those of the build's own branch first. */
  kept?: ServiceData[];
  /** Whether what it holds after it was filled is kept. */
  saves?: boolean;
}

/** What a service held after it was filled, as the runner calls it that keeps it. */
export interface ServiceData {
  name: string;
  digest: string;
  /** The build that left it, and when, in milliseconds. */
  build: string;
  madeAt: number;
}

/** What is kept of the files that a build leaves, and as whose. */
export interface KeepOrder {
  /** For how many hours, if it fails; 0 for none. */
  hours: number;
  accountId: string;
  /** Other suites begin with them: those that pass, or also those that fail. */
  forSuites?: 'passed' | 'always';
}

/** What a build of another suite left in its workspace and its home. */
export interface FilesOrder {
  /** The name of that suite. */
  suite: string;
  /** Where this runner keeps them, if it is the one. */
  kept?: { name: string; key: string };
  /** All of it as a packed blob, by the name of the build, if it was packed. */
  packed?: CacheTree;
}

/** One command of a suite. `when` says whether it runs after a failure, or only then. */
export interface StepOrder {
  name: string;
  command: string;
  when: 'passed' | 'failed' | 'always';
}

export interface CacheOrder {
  /** The paths that are kept, in the workspace or under `~`. */
  paths: string[];
  /** What is there to begin with. */
  found?: FoundCache;
  /** Under this name the build saves what it leaves; builds without it, such as those of forks, save nothing. */
  savesAs?: string;
  /** Whether it saves that also when its command fails. */
  savesFailed?: boolean;
  /** A cache that is larger is not kept. */
  mostBytes: number;
}

/** A cache, and the branch whose builds save it. */
export interface FoundCache extends CacheTree {
  id: string;
  branch: string;
  /** The commit of the build that left it. */
  sha: string;
}

/** What a build left, as a packed blob: at the paths of its cache, or all of it. */
export interface CacheTree {
  /** The name of the build. */
  name: string;
  digest: string;
  /** The size of the blob. */
  bytes: number;
}

/** Compiled software: a packed directory, and its prefix. */
export interface Software {
  digest: string;
  prefix: string;
}

export interface CompileOrder {
  kind: 'compile_dependency';
  archive: { digest: string; size: number; kind: string };
  /** The directory inside the archive in which the command starts. */
  source: string;
  command: string;
  prefix: string;
  environment: Record<string, string>;
  /** The software that it is compiled against. */
  software: Software[];
  prefixes: string[];
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** The limits of the unpacked archive. The packed result may have as many bytes. */
  unpacked: { bytes: number; entries: number };
  image?: ImageOrder;
}

export interface PushOrder {
  kind: 'push_deploy';
  /** The repository of the commit. Its key also opens the target. */
  source: Source;
  sha: string;
  /** The branch of the source that must contain the commit. */
  localBranch: string;
  /** The target repository. */
  remoteUrl: string;
  remoteBranch: string;
  timeoutSeconds: number;
}

/** A check of a repository for a caller that waits: it has no log. */
export interface CheckOrder {
  kind: 'check_connection';
  source: Source;
  timeoutMs: number;
}

/** To pack the files that this runner keeps of a build, because another runner is to begin with them. It has no log. */
export interface PackOrder {
  kind: 'pack_files';
  source: Source;
  name: string;
  key: string;
  mostBytes: number;
}

export type Work = FetchOrder | SuiteOrder | CompileOrder | PushOrder | CheckOrder | PackOrder;

export interface Order {
  claim: string;
  work: Work;
  /** The current size of the log: more than 0 when earlier work on the same record wrote to it. */
  logOffset: number;
  /** How many lines it has, if it has any. */
  logLines?: number;
  /** The longest log. */
  logLimit: number;
}
