/**
 * The bounds of everything that a stranger can make large, in one place. Fields, runners' messages, hooks and documents
 * name them, `docs/limits.md` tells them to people, and a test walks over all of them. They are far above what people
 * need: each only keeps one sender from taking the server away from all others.
 */

/** Texts, in characters: Unicode code points, as JSON Schema counts. */
export const longest = {
  name: 255,
  description: 10_000,
  command: 65_536,
  /** Of repositories in git's form. */
  repositoryUrl: 1024,
  /** Of the web. */
  webAddress: 2048,
  /** At a forge: owner and name, or the path of groups. */
  repository: 512,
  /** Branches, tags and SHAs that people type. */
  ref: 255,
  /** A file of the repository. */
  file: 255,
  /** On the machine of a build. */
  path: 1024,
  cron: 255,
  timeZone: 64,
  /** Of a rule: texts and regular expressions. */
  ruleValue: 1000,
  /** A regular expression that a log is searched for. */
  expression: 1000,
  /** What is looked for in the names of tests, projects, branches and suites. */
  filter: 200,
  variableName: 255,
  variableContent: 32_768,
  tag: 64,
  image: 600,
  glob: 255,
  cachePath: 255,
  matrixLine: 10_000,
  /** Of a service: it is the name of a host. */
  serviceName: 63,
  /** It is part of an index, of names of statuses at forges, and of titles. */
  variant: 500,
  email: 254,
  password: 1024,
  host: 255,
  /** For a registry or a forge: some are signed documents. */
  registryPassword: 16_384,
  forgeToken: 4096,
  digest: 64,
  /** A position in one log, and in all logs of a build request. */
  position: 15,
  positions: 16_000,
  /** Almost 64 KB for a shell, in base64. */
  shellInput: 87_380,
  /** The settings of a project. Its request has at most `bytes.body`, as all others. */
  document: 1_000_000,
  callback: 256,
  idempotencyKey: 255,
  applicationName: 100,
  redirectAddress: 2000,

  /** What runners send. Their words and the names of steps are shortened to that. */
  runnerWords: 4000,
  stepName: 300,
  /** A ref, a branch or a file, as git has it. */
  gitName: 65_536,

  /** What forges send: shortened to that. */
  hookEvent: 100,
  hookSender: 255,
  hookAddress: 1024,
  deliveryKey: 200,
} as const;

export type TextBound = keyof typeof longest;

/** Entries of lists. */
export const most = {
  stepsOfSuite: 50,
  servicesOfSuite: 10,
  variablesOfService: 50,
  dataPaths: 16,
  tags: 16,
  globs: 50,
  refGlobs: 20,
  approvers: 100,
  cachePaths: 16,
  matrixLines: 16,
  /** Of one suite, and lines that name some of them. */
  variants: 256,
  /** All values of a matrix combined, before some are excluded. */
  combinations: 1024,
  /** Of all suites of a project, with those that are excluded: one request builds them all. */
  variantsOfProject: 2048,
  relatedDependencies: 64,
  /** Named in one build request. */
  namedSuites: 500,
  neededSuites: 100,
  layeredSuites: 50,
  variablesOfRequest: 50,
  redirectAddresses: 20,
  /** One transaction applies a document, and holds up others while it does. */
  suitesInDocument: 200,
  entriesInDocument: 2000,

  /** Projects that the dashboard shows at once. */
  tiles: 500,
  /** What arrives of an archive before a connection breaks is a part of its own. */
  archiveParts: 10_000,

  /** Branches, tags and files of a commit, each. */
  namesOfCommit: 10_000,

  /** What runners send. */
  claims: 4096,
  steps: 1000,
  /** Projects, and trees of caches, that one message asks about. */
  askedAbout: 1000,
  /** Branches and files that a check of a repository found. */
  checked: 1000,
  /** In one message about polls, and refs in the listing of one. */
  pollReports: 1024,
  refs: 50_000,
  /** Of a build, and in one message about them. */
  tests: 100_000,
  testsAtOnce: 500,

  /** What forges send: the rest is not considered. */
  hookChanges: 100,
  hookNames: 16,
} as const;

export type ListBound = keyof typeof most;

/** What is sent in one piece, in bytes. */
export const bytes = {
  body: 1_048_576,
  /** The variables of a build request, as JSON: lists of requests have them. */
  variablesOfRequest: 65_536,
  /** Of a commit, as a runner reports it. The rest is left out. */
  commitMessage: 65_536,
  /** The name or the e-mail address of somebody. */
  person: 1024,
  /** The branches, the tags and the files, each as JSON: rules read them with every build request. */
  namesOfCommit: 524_288,
  /** What runners send: the end of a piece of work, a message about polls, and the listing in it, and a piece of a log. */
  runnerReport: 3_145_728,
  pollReports: 10_485_760,
  refListing: 8_388_608,
  logChunk: 1_048_576,
  testReports: 4_194_304,
  /** Of a test: its name, class, suite and file, and what it says; and the texts of all tests of a build. */
  testName: 1024,
  testMessage: 8192,
  testsOfBuild: 67_108_864,
  /** What a step may write to each of the files that add variables, and all that the steps of a build added together. */
  stepEnvironment: 262_144,
  /** What runners send about the steps of a build. */
  stepReports: 131_072,
  /** And about its services. */
  serviceReports: 16_384,
  /** The settings of a project in its repository. */
  /** The variables of a runner for all of its builds. */
  environmentFile: 65_536,
  configFile: 131_072,
  shellOutput: 65_536,
  /** What a forge sends. */
  hookPayload: 26_214_400,
  /** What a forge answers. */
  forgeAnswer: 2_097_152,
  /** The first of what a receiver of webhooks answers; the rest is not read. */
  receiverAnswer: 1024,
} as const;

/** The texts of a test, by their field. */
export const bytesOfTest = {
  name: bytes.testName,
  class: bytes.testName,
  suite: bytes.testName,
  file: bytes.testName,
  message: bytes.testMessage,
} as const;

type Parent = 'account' | 'project' | 'suite';

interface RecordBound {
  /** What has them; of several, the first that the path names. */
  per: Parent | readonly Parent[];
  most: number;
  /** Of all projects of the account together. */
  ofAccount?: number;
  /** These columns of all of them together: they are listed in one answer. */
  texts?: { columns: readonly string[]; bytes: number };
}

const megabyte = 1_048_576;

/** Records, by their table. Those that were deleted do not count. */
export const mostRecords = {
  projects: {
    per: 'account',
    most: 10_000,
    texts: { columns: ['name', 'repository_url', 'clone_url', 'description'], bytes: 8 * megabyte },
  },
  /** More than anybody writes: the contract of the API knows no limit on suites, and none on software. */
  suites: {
    per: 'project',
    most: 10_000,
    texts: {
      columns: [
        'name',
        'description',
        'command',
        'steps',
        'services',
        'matrix',
        'matrix_include',
        'matrix_exclude',
        'matrix_allow_failure',
        'reports',
        'artifacts',
        'cache',
      ],
      bytes: 8 * megabyte,
    },
  },
  dependencies: {
    per: 'account',
    most: 10_000,
    texts: { columns: ['name', 'description', 'command', 'launch_command'], bytes: 8 * megabyte },
  },
  suite_rules: { per: 'suite', most: 100 },
  environment_variables: {
    per: ['suite', 'project'],
    most: 200,
    texts: { columns: ['content'], bytes: 2 * megabyte },
  },
  suite_dependencies: { per: 'suite', most: 50 },
  schedules: { per: 'project', most: 100, ofAccount: 1000 },
  hooks: { per: 'project', most: 100 },
  /** Webhooks and status targets together. */
  notifications: { per: 'project', most: 1000 },
  deploy_strategies: { per: 'project', most: 100 },
  collaborators: { per: 'project', most: 1000, ofAccount: 10_000 },
  registries: { per: 'account', most: 100 },
  forges: { per: 'account', most: 100 },
  oauth_clients: { per: 'account', most: 100 },
} as const satisfies Record<string, RecordBound>;

export type BoundedTable = keyof typeof mostRecords;

/** Records of one person of which the oldest go when there are more. */
export const mostKept = {
  sessions: 100,
  access_tokens: 1000,
} as const;

/** Jobs of one account that wait for a runner. Who asks for more is told to come again later. */
export const mostWaitingJobs = 20_000;

/**
 * What the runners with one token may hold at a server at the same time. All tokens that are bound to an account hold at
 * most twice as much together.
 */
export const mostHeld = {
  connections: 200,
  /** Blobs that are sent or received. */
  transfers: 64,
  /** Calls for work that wait: one for each free slot. */
  wishes: 4096,
  /** Other calls that wait for their answers, and the bytes of all that wait. */
  waitingCalls: 1024,
  waitingBytes: 8_388_608,
  /** Calls that are being answered. */
  calls: 8,
  callBytes: 4_194_304,
  /** Messages that are complete and not answered yet, and messages that are not complete. */
  queuedBytes: 33_554_432,
  arrivingBytes: 33_554_432,
  /** Answers that the runners have not read. */
  unreadBytes: 33_554_432,
} as const;
