/**
 * Limits for everything a user can make large, so no user can starve others. All are far above usual needs.
 * `docs/limits.md` lists them for users, and a test checks all of them.
 */

/** In Unicode code points, as JSON Schema counts. */
export const longest = {
  name: 255,
  description: 10_000,
  command: 65_536,
  /** In git's form. */
  repositoryUrl: 1024,
  webAddress: 2048,
  /** At a forge: owner and name, or the path of groups. */
  repository: 512,
  /** Branches, tags and SHAs that users type. */
  ref: 255,
  file: 255,
  /** On the machine of a build. */
  path: 1024,
  cron: 255,
  timeZone: 64,
  time: 40,
  /** Texts and regular expressions. */
  ruleValue: 1000,
  expression: 1000,
  /** Of one entry of `retry_on[]`. */
  retryOn: 255,
  /** The message of an annotation, in bytes. */
  annotation: 2000,
  /** Filters the names of tests, projects, branches and suites. */
  filter: 200,
  variableName: 255,
  variableContent: 32_768,
  /** A default or a description of a parameter. */
  parameterText: 1000,
  audience: 255,
  tag: 64,
  image: 600,
  glob: 255,
  cachePath: 255,
  matrixLine: 10_000,
  serviceName: 63,
  /** It is part of an index, of names of statuses at forges, and of titles. */
  variant: 500,
  email: 254,
  /** Of one notification, with commas between them. */
  recipients: 5000,
  organisationName: 64,
  password: 1024,
  host: 255,
  /** For a registry or a forge. Some are signed documents. */
  registryPassword: 16_384,
  forgeToken: 4096,
  passkeyName: 64,
  digest: 64,
  /** A position in one log, and in all logs of a build request. */
  position: 15,
  positions: 16_000,
  /** A project's settings. Their request is also limited to `bytes.body`. */
  document: 1_000_000,
  callback: 256,
  idempotencyKey: 255,
  applicationName: 100,
  tokenName: 100,
  redirectAddress: 2000,

  /** From runners. Longer words and step names are cut. */
  runnerWords: 4000,
  stepName: 300,
  /** A ref, a branch or a file in git. */
  gitName: 65_536,
  /** Of a variable of the operator, a folder of the machine, or a service. */
  inputName: 4096,

  /** From forges. Longer texts are cut. */
  hookEvent: 100,
  hookSender: 255,
  hookAddress: 1024,
  deliveryKey: 200,
} as const;

export type TextBound = keyof typeof longest;

export const most = {
  stepsOfSuite: 50,
  servicesOfSuite: 10,
  /** What a runner reports of a build: images, folders, and variables of the operator. */
  runnerInputs: 500,
  /** Of a folder that builds without an image see. */
  machineFiles: 200_000,
  idTokensOfSuite: 10,
  variablesOfService: 50,
  dataPaths: 16,
  tags: 16,
  globs: 50,
  refGlobs: 20,
  approvers: 100,
  retryOn: 20,
  ignoredVariables: 100,
  /** Waiting or running builds of a suite that only check reused ones. */
  checksOfSuite: 10,
  cachePaths: 16,
  matrixLines: 16,
  /** Of one suite, and lines that name some of them. */
  variants: 256,
  /** All values of a matrix combined, before exclusions. */
  combinations: 1024,
  /** Of all suites of a project before exclusions, because one request builds them all. */
  variantsOfProject: 2048,
  relatedDependencies: 64,
  /** In one build request. */
  namedSuites: 500,
  neededSuites: 100,
  layeredSuites: 50,
  filesFromSuites: 20,
  variablesOfRequest: 50,
  parameters: 20,
  parameterOptions: 50,
  /** At a time, of one account. */
  agentCalls: 8,
  redirectAddresses: 20,
  projectsOfToken: 100,
  /** One transaction applies a document, and blocks others meanwhile. */
  suitesInDocument: 200,
  /** Of one file. */
  templatesInDocument: 200,
  includesOfFile: 10,
  entriesInDocument: 2000,

  tiles: 500,
  /** From the log of a build, and of its failed tests. */
  annotations: 100,
  /** Of one build at a pull request. */
  notesOfBuild: 50,
  /** Of a pull request, in a check run at GitHub. */
  checkAnnotations: 200,
  /** Parts of an archive. A broken connection ends a part. */
  archiveParts: 10_000,

  /** Different lines of a passed run, by which later logs are compared with it; and of all runs in one brief. */
  lineHashes: 65_536,
  lineHashesOfBrief: 4_194_304,
  /** Lines at the end of a log in a brief, if none of its lines is new. */
  lastLines: 20,
  /** Lines in a comparison of two logs. */
  diffLines: 4000,
  /** In a brief, each: commits, files, inputs, variables, tests and branches. */
  partsOfBrief: 50,

  /** Branches, tags and files of a commit, each. */
  namesOfCommit: 10_000,

  /** From runners. */
  claims: 4096,
  spans: 1000,
  /** Projects, or trees of caches, in one message. */
  askedAbout: 1000,
  /** Branches and files found by a check of a repository. */
  checked: 1000,
  /** Files of other CI systems that become a project's file. */
  importedFiles: 100,
  /** What a translation of them left out, in one response. */
  leftOut: 1000,
  /** Polls in one message, and refs in one listing. */
  pollReports: 1024,
  refs: 50_000,
  /** Of a build, and in one message. */
  tests: 100_000,
  testsAtOnce: 500,
  /** On the page of an artifact that is a report. */
  shownTests: 200,

  /** From forges. The rest is ignored. */
  hookChanges: 100,
  hookNames: 16,
} as const;

export type ListBound = keyof typeof most;

/** Per piece that is sent. */
export const bytes = {
  body: 1_048_576,
  /** As JSON. Lists of requests include them. */
  variablesOfRequest: 65_536,
  /** Of an issuer that signs users in: its description, keys, tokens and facts about a user. */
  issuerAnswer: 1_048_576,
  /** As a runner reports it. The rest is dropped. */
  commitMessage: 65_536,
  person: 1024,
  /** Branches, tags and files, each as JSON. Rules read them with every build request. */
  namesOfCommit: 524_288,
  /** From runners: the end of a job, a message about polls with its listings, and a piece of a log. */
  runnerReport: 3_145_728,
  pollReports: 10_485_760,
  refListing: 8_388_608,
  logChunk: 1_048_576,
  testReports: 4_194_304,
  /** Of a test: its names and message. Then the texts of all tests of a build. */
  testName: 1024,
  testMessage: 8192,
  testsOfBuild: 67_108_864,
  /** On the page of an artifact. */
  shownText: 8_388_608,
  shownReport: 1_048_576,
  /** Of a build. */
  summary: 1_048_576,
  /** Read before it is masked and cut, so that a secret at the end is found whole. */
  summaryRead: 2_097_152,
  /** JSON may need two bytes for one. */
  summaryReport: 2_129_920,
  /** A page with more is not made. */
  summaryPage: 4_194_304,
  /** Per file to which a step writes variables, and for all variables that a build's steps add. */
  stepEnvironment: 262_144,
  /** From runners, about the steps of a build. */
  stepReports: 131_072,
  /** What a runner knows about a point at which a build can go on, as JSON, and the message with it. */
  stepFacts: 1_048_576,
  stepPoint: 2_359_296,
  /** From runners, about its services. */
  serviceReports: 16_384,
  /** A runner's variables for all of its builds. */
  environmentFile: 65_536,
  /** Read of one log, for a brief. */
  comparedLog: 67_108_864,
  /** Of all lines in a comparison of two logs. */
  diffText: 1_048_576,
  /** Of a brief. */
  brief: 65_536,
  configFile: 131_072,
  /** All files that a project's file includes. */
  includedFiles: 262_144,
  /** All files of other CI systems in the report of a repository check, as JSON. */
  importedFiles: 1_048_576,
  /** Encrypted, it has to fit into a notification of PostgreSQL. */
  shellPacket: 3000,
  hookPayload: 26_214_400,
  forgeAnswer: 2_097_152,
  /** Stored bytes of a webhook response. The rest is not read. */
  receiverAnswer: 1024,
  /** What an application that is not registered says about itself. */
  clientDocument: 16_384,
  /** A message of an agent, and the quoted part of an answer. */
  agentRequest: 65_536,
  agentAnswer: 131_072,
} as const;

/** By field. */
export const bytesOfTest = {
  name: bytes.testName,
  class: bytes.testName,
  suite: bytes.testName,
  file: bytes.testName,
  message: bytes.testMessage,
} as const;

type Parent = 'account' | 'organisation' | 'project' | 'suite';

interface RecordBound {
  /** The owner. If there are several, the first that the path names. */
  per: Parent | readonly Parent[];
  most: number;
  /** Of all projects of the account together. */
  ofAccount?: number;
  /** The sum over these columns of all records, because one response lists them. */
  texts?: { columns: readonly string[]; bytes: number };
}

const megabyte = 1_048_576;

/** By table. Deleted records do not count. */
export const mostRecords = {
  projects: {
    per: 'account',
    most: 10_000,
    texts: { columns: ['name', 'repository_url', 'clone_url', 'description', 'parameters'], bytes: 8 * megabyte },
  },
  /** Far above real needs: the contract of the API has no limit on suites or dependencies. */
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
        'retry_on',
        'inputs',
        'ignore_variables',
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
    per: ['suite', 'project', 'organisation'],
    most: 200,
    texts: { columns: ['content'], bytes: 2 * megabyte },
  },
  suite_dependencies: { per: 'suite', most: 50 },
  schedules: { per: 'project', most: 100, ofAccount: 1000 },
  hooks: { per: 'project', most: 100 },
  /** Webhooks and status targets together. */
  notifications: { per: 'project', most: 1000 },
  deploy_strategies: { per: 'project', most: 100 },
  organisation_members: { per: 'organisation', most: 1000 },
  collaborators: { per: 'project', most: 1000, ofAccount: 10_000 },
  registries: { per: 'account', most: 100 },
  forges: { per: 'account', most: 100 },
  oauth_clients: { per: 'account', most: 100 },
  user_tokens: { per: 'account', most: 100 },
} as const satisfies Record<string, RecordBound>;

export type BoundedTable = keyof typeof mostRecords;

/** Organisations that one user owns, and open invitations that one user made. */
export const mostOrganisations = 100;
export const mostInvitations = 100;

/** Letters with an invitation or a password link, to one address in a day, from each server. */
export const mostLinksToAddress = 10;

/** Per user. The oldest are deleted first. */
export const mostKept = {
  sessions: 100,
  access_tokens: 1000,
} as const;

/** How long a token of a user is valid. */
export const tokenDays = { usual: 90, most: 366 } as const;

/** Per user. */
export const mostPasskeys = 20;

/** And as far below 0. Of a suite, a request and a build, which has the sum of both. */
export const highestPriority = 100;

/** Per account. Further requests are refused with advice to retry later. */
export const mostWaitingJobs = 20_000;

/** For all runners with one token. All account-scoped tokens of an account together have twice as much. */
export const mostHeld = {
  connections: 200,
  transfers: 64,
  /** Waiting calls for work: one for each free slot. */
  wishes: 4096,
  /** Other waiting calls, and the bytes of all that wait. */
  waitingCalls: 1024,
  waitingBytes: 8_388_608,
  calls: 8,
  callBytes: 4_194_304,
  /** Complete messages without a response, and incomplete messages. */
  queuedBytes: 33_554_432,
  arrivingBytes: 33_554_432,
  /** Responses that the runners have not read. */
  unreadBytes: 33_554_432,
} as const;

/** Commands in comments, from the hook of one project. */
export const commandRate = { perMs: 60_000, most: 30, mostOfOne: 10 };
/** A command that waited longer is not obeyed. */
export const longestCommandMs = 15 * 60_000;
