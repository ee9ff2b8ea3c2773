import type { StepState } from './outcomes.ts';

export const workKinds = [
  'fetch_commit',
  'run_suite',
  'compile_dependency',
  'push_deploy',
  'check_connection',
  'pack_files',
  'check_inputs',
] as const;

export type WorkKind = (typeof workKinds)[number];

export interface Repository {
  projectId: string;
  repositoryUrl: string;
}

export interface Access {
  /** Over SSH. */
  privateKey: string;
  /** Over HTTPS, if the repository is not public. */
  credential?: HttpsCredential;
}

export interface HttpsCredential {
  username: string;
  password: string;
}

export interface Source extends Repository, Access {}

/** The commit whose files are compared, to find the changed ones. */
export type Comparison =
  /** The branch's earlier commit. If that is gone, the commit where it left the default branch. */
  | { before: string }
  /** The commit where it left this branch. null is the default branch. */
  | { leaving: string | null }
  /** On the default branch, its first parent. Elsewhere, the commit where it left that branch. */
  | { asked: true };

/** A file of another project. The ref is a full SHA, or a branch by its full name. */
export interface IncludeOrder {
  source: Source;
  ref: string;
  path: string;
}

export interface FetchOrder {
  kind: 'fetch_commit';
  source: Source;
  commitRef: string;
  /** The full name of the ref that reaches the commit, if `commitRef` is a SHA that came with the ref. */
  fetchRef?: string;
  /** By full name of a ref: its commit when last built. */
  previous: Record<string, string>;
  /** The newest built commit of the default branch so far. */
  defaultHead: string | null;
  /** Sets how the commit is built. On the default branch it configures the project. */
  configFile?: string;
  /** What the file of an earlier try included. */
  includes?: readonly IncludeOrder[];
  compare: Comparison;
  /** The branch to merge the commit into, and the request's name, which makes the merge its own. */
  merge?: { into: string; name: string };
}

/** Its files replace the machine's programs in the sandbox. */
export interface ImageOrder {
  /** As the user wrote it (domain/image-reference.ts). */
  reference: string;
  /** This account must not get an image that only another account pulled. */
  accountId: string;
}

/** The account's credentials for the registry of a claim's image, if there are any. */
export interface RegistryAccess {
  /** Only this registry may get the credentials. */
  host: string;
  username?: string;
  password?: string;
}

/** The build may make user namespaces and mounts, as programs that build images do. */
export interface ImageBuildsOrder {
  /** The account's registries with credentials. */
  registries: Required<RegistryAccess>[];
}

export interface SuiteOrder {
  kind: 'run_suite';
  /** Its key is requested only if the commit has to be fetched. */
  source: Repository;
  sha: string;
  /** The full name of the ref that reaches the commit, if no branch or tag does. */
  fetchRef?: string;
  /** The commits that `sha` is the merge of, and the name of the request. Only runners have the merge. */
  merge?: { head: string; base: string; name: string };
  /** Missing counts as true. */
  isFork?: boolean;
  /** The build sees no commit but one of its own, which follows from the files. */
  isSealed?: true;
  /** The files that count as its inputs. Without it, all. */
  inputs?: string[];
  /** In order, at least one. */
  steps: StepOrder[];
  environment: Record<string, string>;
  /** Masked in the log. */
  secrets: string[];
  /** Credentials of this build, by variable. Masked, and never retained with its files. */
  tokens?: Record<string, string>;
  /** The build may call the server's API. */
  api?: ApiOrder;
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** Of several at one prefix, later ones overlay earlier ones. */
  software: Software[];
  /** In the order in which programs and libraries are searched. */
  prefixes: string[];
  /** Run before the suite's steps, in this order. */
  launches: { name: string; command: string }[];
  /** The report is to have the times of its steps. */
  isTraced?: boolean;
  image?: ImageOrder;
  /** Root there, or not. Without it, the image decides. */
  root?: boolean;
  imageBuilds?: ImageBuildsOrder;
  artifacts?: { globs: string[]; mostFiles: number; mostBytes: number };
  cache?: CacheOrder;
  /** The patterns of files in the workspace that are reports of tests. */
  reports?: string[];
  /** The files that it begins with, instead of only the commit. */
  files?: FilesOrder;
  /** The files that it has beside the commit, read-only. */
  lent?: LentOrder[];
  /** It starts at a later step, if it can have what the steps before it left. */
  from?: FromOrder;
  /** What its steps leave is sent as points, at which the next attempt goes on if this runner is lost. */
  resume?: { mostBytes: number };
  keep?: KeepOrder;
  /** In its network. */
  services?: ServiceOrder[];
}

/** A remote runner gives the build its own address of the server instead. */
export interface ApiOrder {
  url: string;
  /** Where the server's own machine reaches it. */
  listens: { host: string; port: number };
  /** The server's certificate in PEM, if no other authority vouches for it. */
  certificate?: string;
}

/** Ready before the build's first step, and ended with the build. */
export interface ServiceOrder {
  name: string;
  /** Without an image, it has the machine's programs and the dependencies. */
  image?: ImageOrder;
  software: Software[];
  prefixes: string[];
  /** Blank for the image's own command. */
  command: string;
  environment: Record<string, string>;
  /** 0 for the first port that the image names. */
  readyPort: number;
  /** Blank for none. */
  readyCommand: string;
  readyTimeoutSeconds: number;
  /** Fills it, in the build's files. Blank for nothing. */
  prepare: string;
  prepareInputs: string[];
  /** The directories that are kept after that. */
  data: string[];
  /** Data that it may begin with. Data of the build's own branch come first. */
  kept?: ServiceData[];
  /** Its data after filling are kept. */
  saves?: boolean;
}

/** A service's data after filling, by the name that its runner uses. */
export interface ServiceData {
  name: string;
  digest: string;
  /** The build that left it, and when, in milliseconds. */
  build: string;
  madeAt: number;
}

export interface KeepOrder {
  /** If it fails. 0 for none. */
  hours: number;
  accountId: string;
  /** Other suites begin with the files: of builds that pass, or also of those that fail. */
  forSuites?: 'passed' | 'always';
}

/** Workspace and home of another suite's build. */
export interface FilesOrder {
  /** The name of that suite. */
  suite: string;
  /** The ID of that build. */
  build: string;
  /** Set if this runner keeps them. */
  kept?: { name: string; key: string };
  /** All files as a packed blob, by the name of the build, if it was packed. */
  packed?: CacheTree;
}

/** The workspace of a build of a suite whose files are beside the checkout. */
export interface LentOrder extends FilesOrder {
  /** Blank without a matrix. */
  variant: string;
}

export interface FromOrder {
  /** The name of the step. */
  step: string;
  /** The build that ran the steps before it. */
  build: string;
  /** Set if this runner keeps its files. */
  kept?: { name: string; key: string };
  /** Set if its runner was lost: its last point. */
  point?: PointOrder;
}

export interface PointOrder {
  files: CacheTree;
  done: StepState[];
  facts: string;
  /** How long before this build that one began, in milliseconds. */
  earlierMs: number;
}

/** `when`: also after a failure, or only then. */
export interface StepOrder {
  name: string;
  command: string;
  when: 'passed' | 'failed' | 'always';
}

export interface CacheOrder {
  /** In the workspace, or under `~`. */
  paths: string[];
  /** The cache to restore. */
  found?: FoundCache;
  /** Builds without it, such as those of forks, save nothing. */
  savesAs?: string;
  /** Also if its command fails. */
  savesFailed?: boolean;
  /** A larger cache is not kept. */
  mostBytes: number;
}

/** The branch whose builds save it. */
export interface FoundCache extends CacheTree {
  id: string;
  branch: string;
  /** The commit of the build that left it. */
  sha: string;
}

/** A build's files as a packed blob: at the paths of its cache, or all. */
export interface CacheTree {
  /** The name of the build. */
  name: string;
  digest: string;
  /** The size of the blob. */
  bytes: number;
}

/** A packed directory, and its prefix. */
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
  /** Dependencies for its compile. */
  software: Software[];
  prefixes: string[];
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** The limits of the unpacked archive. The packed result may have as many bytes. */
  unpacked: { bytes: number; entries: number };
  image?: ImageOrder;
}

export interface PushOrder {
  kind: 'push_deploy';
  /** The key of the commit's repository also opens the target. */
  source: Source;
  sha: string;
  /** The branch of the source that must contain the commit. */
  localBranch: string;
  remoteUrl: string;
  remoteBranch: string;
  timeoutSeconds: number;
}

/** For a waiting caller. It has no log. */
export interface CheckOrder {
  kind: 'check_connection';
  source: Source;
  timeoutMs: number;
}

/** This runner packs a build's files, because another runner is to begin with them. It has no log. */
export interface PackOrder {
  kind: 'pack_files';
  source: Source;
  name: string;
  key: string;
  mostBytes: number;
}

/** What would a build stand on that only this runner knows, if it began now? It has no log. */
export interface CheckInputsOrder extends Pick<
  SuiteOrder,
  'source' | 'sha' | 'fetchRef' | 'merge' | 'isFork' | 'inputs' | 'image'
> {
  kind: 'check_inputs';
  /** The names of the build's variables. Those of the operator do not replace them. */
  environment: string[];
  services?: Pick<ServiceOrder, 'name' | 'image'>[];
  /** It begins with another suite's files instead of the commit's. */
  hasFiles?: true;
}

export type Work = FetchOrder | SuiteOrder | CompileOrder | PushOrder | CheckOrder | PackOrder | CheckInputsOrder;

export interface Order {
  claim: string;
  work: Work;
  /** More than 0 if earlier work on the same record wrote to the log. */
  logOffset: number;
  logLines?: number;
  logLimit: number;
}
