import type { Queries } from '../db/open.ts';
import type { Watch } from '../db/subscriptions.ts';
import type { Answers } from '../resources/index.ts';
import {
  described,
  Digits,
  identifier,
  required,
  text,
  wholeNumber,
  type Field,
  type FieldSet,
} from '../../shared/records/fields.ts';
import { commitRef } from '../../shared/records/forms.ts';
import { groupOf } from '../../shared/records/raw.ts';
import type { JsonSchema } from '../../shared/records/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { asText } from '../briefs/render.ts';
import { hasFork } from './forks.ts';
import { plain, plainLines } from '../../shared/lib/plain-text.ts';
import type { Said } from './quote.ts';
import type { CallRoute } from './routes.ts';
import type { Glossary } from './words.ts';

/** What a tool may use. */
export interface ToolCall {
  route: CallRoute;
  db: Queries;
  words: Glossary;
  /** Throws if the token no longer opens this. */
  stillAllowed: () => Promise<void>;
  watch: (subject: string) => Watch;
  recheckMs: number;
  signal: AbortSignal;
}

/** The arguments of all tools. Each tool takes some. */
const known = {
  project: nameOrIdentifier('The name or the identifier of a project'),
  build: described(identifier(), 'The identifier of a build'),
  request: described(identifier(), 'The identifier of a build request'),
  ref: described(commitRef, 'A branch, a tag or a SHA'),
  expression: described(required(text('expression')), 'A regular expression in the syntax of RE2'),
  from: described(
    wholeNumber({ min: -999_999_999, max: 999_999_999, fallback: 1 }),
    'The first line, counted from 1; negative numbers count from the end',
  ),
  limit: described(wholeNumber({ min: 1, max: 1000, fallback: 50 }), 'The most to return'),
  timeout: described(wholeNumber({ min: 0, max: 50, fallback: 50 }), 'After how many seconds to answer at the latest'),
  word: described(required(text('name')), 'A state, or a failure reason, as the other tools return it'),
} satisfies FieldSet;

function nameOrIdentifier(description: string): Field<string> {
  const name = described(required(text('name')), description);
  const schema: JsonSchema = { ...name.schema, type: ['string', 'integer'] };
  return { ...name, schema, parse: (raw) => name.parse(raw instanceof Digits ? raw.digits : raw) };
}

type Argument = keyof typeof known;
/** After they were read. Identifiers are texts: JSON has no 64-bit numbers. */
export interface Arguments {
  project: string;
  build: string;
  request: string;
  ref: string;
  expression: string;
  from: number;
  limit: number;
  timeout: number;
  word: string;
}

/** A tool covers routes of the API. The first ones decide which scopes a token needs. */
export interface Tool {
  title: string;
  description: string;
  takes: readonly Argument[];
  routes: (sent: Arguments) => (keyof Answers)[];
  /** The tool starts work, and does not only read. */
  starts?: boolean;
  run(call: ToolCall, sent: Arguments): Promise<Said>;
}

export function fieldsOf({ takes }: Tool): FieldSet {
  return Object.fromEntries(takes.map((name) => [name, known[name]]));
}

const requestPath = '/projects/:project_id/build_requests/:build_request_id';
const buildPath = '/projects/:project_id/builds/:build_id';

const isIdentifier = (text: string): boolean => /^\d{1,19}$/.test(text);
const ofProject = ({ project }: Arguments): (keyof Answers)[] => (isIdentifier(project) ? [] : ['GET /projects']);

async function projectId({ route }: ToolCall, { project }: Arguments): Promise<string> {
  if (isIdentifier(project)) return project;
  const found = (await route('GET /projects')).filter(({ name }) => name === project);
  if (found.length > 1) throw ApiError.inWords('already_exists', 'project', 'Several projects have this name.');
  return found[0]?.id_str ?? missing('project');
}

function missing(field: string, code: 'not_found' | 'is_blank' = 'not_found'): never {
  throw new ApiError(code, field);
}

type Build = Answers['GET /projects/:project_id/builds'][number];
type BuildRequest = Answers['POST /projects/:project_id/build_requests'];

function buildFacts(build: Build) {
  const { id_str, commit_id_str, build_state, attempt, exit_status, failure_reason } = build;
  const { created_at, started_at, finished_at, tests_passed, tests_failed, tests_skipped } = build;
  return {
    build: id_str,
    commit: commit_id_str,
    state: build_state,
    attempt,
    exit_status,
    failure_reason: /^\w*$/.test(failure_reason) ? failure_reason : '',
    created_at,
    started_at,
    finished_at,
    tests: { passed: tests_passed, failed: tests_failed, skipped: tests_skipped },
  };
}

function requestFacts({ id_str, commit_id_str, build_state, failure_reason, created_at, from_fork }: BuildRequest) {
  return {
    request: id_str,
    commit: commit_id_str,
    state: build_state,
    failure_reason: /^\w*$/.test(failure_reason) ? failure_reason : '',
    created_at,
    from_fork,
  };
}

function buildLine({ id_str: id, suite_name: suite, variant, waiting_reason: waits }: Build): string {
  return plain([`build ${id}: suite ${suite}`, variant && `(${variant})`, waits].filter(Boolean).join(' '));
}

function requestLine({ id_str: id, commit_ref: ref, sender, waiting_reason: waits }: BuildRequest): string {
  return plain([`request ${id}: of ${ref}`, sender && `by ${sender}`, waits].filter(Boolean).join(' '));
}

function stepLines({ steps }: Build): string[] {
  return steps.map(({ name, state, exit_status: status, line }) =>
    plain(
      `step ${name}: ${state}${status === null ? '' : `, exit ${status}`}${line === null ? '' : `, log line ${line}`}`,
    ),
  );
}

/** Each project has its newest requests on one page of the list. */
async function requestOf(call: ToolCall, project: string, ref: string): Promise<BuildRequest> {
  return (await requestsOf(call, project, ref))[0] ?? missing('ref');
}

async function requestsOf(call: ToolCall, project: string, ref: string): Promise<BuildRequest[]> {
  const params = { project_id: project };
  const requests = await call.route('GET /projects/:project_id/build_requests', { params, query: { limit: 1000 } });
  return requests.filter(({ commit_ref: of }) => ref === '' || of === ref || of === `refs/heads/${ref}`);
}

const failedStates: ReadonlySet<string> = new Set(['failed', 'errored', 'timed_out']);

async function newestFailed(call: ToolCall, project: string, ref: string): Promise<string> {
  for (const { id_str: id, build_state: state } of await requestsOf(call, project, ref)) {
    if (state === 'passed') continue;
    const failed = (await buildsOf(call, project, id, 1000)).find((one) => failedStates.has(one.build_state));
    if (failed) return failed.id_str;
  }
  return missing('build');
}

async function buildsOf(call: ToolCall, project: string, request: string, limit: number) {
  const params = { project_id: project, build_request_id: request };
  return call.route(`GET ${requestPath}/builds`, { params, query: { limit } });
}

const finalStates: ReadonlySet<string> = new Set(['passed', 'failed', 'errored', 'timed_out', 'cancelled', 'skipped']);

/** What is waited for, as it is now. */
async function stateOf(call: ToolCall, project: string, { build, request }: Pick<Arguments, 'build' | 'request'>) {
  if (build !== '') {
    const params = { project_id: project, build_id: build };
    const now: Build = await call.route(`GET ${buildPath}`, { params });
    const isOfFork = await hasFork(call.db, [build]);
    return { state: now.build_state, said: { facts: buildFacts(now), quoted: [buildLine(now)], isOfFork } };
  }
  const params = { project_id: project, build_request_id: request };
  const now: BuildRequest = await call.route(`GET ${requestPath}`, { params });
  const said = async (): Promise<Said> => {
    const builds = await buildsOf(call, project, request, 200);
    const facts = { ...requestFacts(now), builds: builds.map(buildFacts) };
    return { facts, quoted: [requestLine(now), ...builds.map(buildLine)], isOfFork: now.from_fork };
  };
  return { state: now.build_state, said };
}

export const tools: Record<string, Tool> = {
  projects: {
    title: 'List projects',
    description: 'Lists the projects that you may see, with their states.',
    takes: ['limit'],
    routes: () => ['GET /projects'],
    async run({ route }, { limit }) {
      const all = await route('GET /projects');
      const shown = all.slice(0, limit);
      return {
        facts: {
          total: all.length,
          projects: shown.map(({ id_str: id, build_state: state }) => ({ project: id, state })),
        },
        quoted: shown.map(({ id_str: id, name }) => plain(`project ${id}: ${name}`)),
      };
    },
  },

  builds: {
    title: 'List builds',
    description:
      'Lists builds of a project, newest first: all, those of a build request, those of the newest request of a ref, or ' +
      'one build with its steps.',
    takes: ['project', 'build', 'request', 'ref', 'limit'],
    routes: (sent) => [
      ...ofProject(sent),
      ...(sent.build !== ''
        ? ([`GET ${buildPath}`] as const)
        : sent.request !== '' || sent.ref !== ''
          ? ([`GET ${requestPath}/builds`] as const)
          : (['GET /projects/:project_id/builds'] as const)),
    ],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const { build, ref, limit } = sent;
      if (build !== '') {
        const one: Build = await call.route(`GET ${buildPath}`, { params: { project_id: project, build_id: build } });
        const quoted = [buildLine(one), ...stepLines(one)];
        return { facts: { project, ...buildFacts(one) }, quoted, isOfFork: await hasFork(call.db, [build]) };
      }
      const request = sent.request !== '' || ref === '' ? sent.request : (await requestOf(call, project, ref)).id_str;
      const builds: Build[] =
        request === ''
          ? await call.route('GET /projects/:project_id/builds', { params: { project_id: project }, query: { limit } })
          : await buildsOf(call, project, request, limit);
      return {
        facts: { project, ...(request !== '' && { request }), builds: builds.map(buildFacts) },
        quoted: builds.map(buildLine),
        isOfFork: await hasFork(
          call.db,
          builds.map(({ id_str: id }) => id),
        ),
      };
    },
  },

  run: {
    title: 'Request a build',
    description:
      'Requests a build of a branch, a tag or a SHA, by default of the default branch. Then use wait with the request.',
    takes: ['project', 'ref'],
    routes: (sent) => [...ofProject(sent), 'POST /projects/:project_id/build_requests'],
    starts: true,
    async run(call, sent) {
      const project = await projectId(call, sent);
      const body = groupOf({ commit_ref: sent.ref === '' ? 'HEAD' : sent.ref });
      const made = await call.route('POST /projects/:project_id/build_requests', {
        params: { project_id: project },
        body,
      });
      return { facts: { project, ...requestFacts(made) }, quoted: [requestLine(made)] };
    },
  },

  wait: {
    title: 'Wait for a build',
    description:
      'Waits until a build request or a build has ended, and returns its state. It answers after the timeout with the ' +
      'state so far: call it again.',
    takes: ['project', 'request', 'build', 'timeout'],
    routes: (sent) => [...ofProject(sent), sent.build === '' ? `GET ${requestPath}` : `GET ${buildPath}`],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const { build, request, timeout } = sent;
      if (build === '' && request === '') missing('request', 'is_blank');
      const end = performance.now() + timeout * 1000;
      using watch = call.watch(build === '' ? request : build);
      for (;;) {
        const { state, said } = await stateOf(call, project, sent);
        const left = end - performance.now();
        const isFinal = finalStates.has(state);
        if (isFinal || left <= 0 || call.signal.aborted) {
          const { facts, ...more } = typeof said === 'function' ? await said() : said;
          return { facts: { project, ended: isFinal, ...facts }, ...more };
        }
        await watch.changed(Math.min(left, call.recheckMs), call.signal);
        await call.stillAllowed();
      }
    },
  },

  why: {
    title: 'Explain a failure',
    description:
      'Shows why a build failed: its failed step and tests, the lines of its log that no passed run has, what changed ' +
      'since it last passed, how often it ended like this before, and a command to reproduce it. Without build, of the ' +
      'newest build that failed, of the project or of a ref.',
    takes: ['project', 'build', 'ref'],
    routes: (sent) => [
      ...ofProject(sent),
      ...(sent.build === ''
        ? (['GET /projects/:project_id/build_requests', `GET ${requestPath}/builds`] as const)
        : []),
      `GET ${buildPath}/brief`,
    ],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const build = sent.build === '' ? await newestFailed(call, project, sent.ref) : sent.build;
      const params = { project_id: project, build_id: build };
      const brief = await call.route(`GET ${buildPath}/brief`, { params });
      const { step, seen, truncated } = brief;
      const facts = { exit_status: step?.exit_status ?? null, seen: seen.count, since: seen.since, truncated };
      return {
        facts: { project, build, ...facts, lines: brief.lines.length },
        quoted: asText(brief).trimEnd().split('\n'),
        isOfFork: await hasFork(call.db, [build]),
      };
    },
  },

  log_search: {
    title: 'Search logs',
    description:
      'Finds the lines of the log of a build that match an expression, or without a build the builds of the project whose ' +
      'log has such a line.',
    takes: ['project', 'expression', 'build', 'from', 'limit'],
    routes: (sent) => [
      ...ofProject(sent),
      sent.build === '' ? 'GET /projects/:project_id/log_search' : `GET ${buildPath}/log/search`,
    ],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const { build, expression, from, limit } = sent;
      if (build !== '') {
        const params = { project_id: project, build_id: build };
        const query = { q: expression, from, limit };
        const { matches, complete, next } = await call.route(`GET ${buildPath}/log/search`, { params, query });
        const quoted = matches.map(({ number, text: line }) => `${number} ${plain(line)}`);
        const isOfFork = await hasFork(call.db, [build]);
        return { facts: { project, build, matches: matches.length, complete, next }, quoted, isOfFork };
      }
      const params = { project_id: project };
      const query = { expression, limit };
      const found = await call.route('GET /projects/:project_id/log_search', { params, query });
      return {
        facts: {
          project,
          total: found.total,
          first: found.first,
          last: found.last,
          complete: found.complete,
          builds: found.builds.map(({ build_id_str: id, build_state: state, number }) => ({
            build: id,
            state,
            line: number,
          })),
        },
        quoted: found.builds.map(({ build_id_str: id, suite_name: suite, number, text: line }) =>
          plain(`build ${id}, suite ${suite}, line ${number}: ${line}`),
        ),
        isOfFork: await hasFork(
          call.db,
          found.builds.map(({ build_id_str: id }) => id),
        ),
      };
    },
  },

  log_lines: {
    title: 'Read a log',
    description:
      'Reads lines of the log of a build, or of the fetch of a build request. With from -50, the last 50 lines.',
    takes: ['project', 'build', 'request', 'from', 'limit'],
    routes: (sent) => [
      ...ofProject(sent),
      sent.build === '' ? `GET ${requestPath}/log/lines` : `GET ${buildPath}/log/lines`,
    ],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const { build, request, from, limit } = sent;
      if (build === '' && request === '') missing('build', 'is_blank');
      const query = { from, limit };
      const read =
        build === ''
          ? await call.route(`GET ${requestPath}/log/lines`, {
              params: { project_id: project, build_request_id: request },
              query,
            })
          : await call.route(`GET ${buildPath}/log/lines`, { params: { project_id: project, build_id: build }, query });
      const { total, complete, lines } = read;
      const of = build === '' ? { request } : { build };
      return {
        facts: { project, ...of, from: read.from, lines: lines.length, total, complete },
        quoted: lines.map(({ number, text: line }) => `${number} ${plain(line)}`),
        isOfFork: build === '' ? await isForkRequest(call, project, request) : await hasFork(call.db, [build]),
      };
    },
  },

  tests: {
    title: 'List tests',
    description: 'Lists the tests that the reports of a build have, those that failed first, with their messages.',
    takes: ['project', 'build', 'limit'],
    routes: (sent) => [...ofProject(sent), `GET ${buildPath}/tests`],
    async run(call, sent) {
      const project = await projectId(call, sent);
      const { build, limit } = sent;
      if (build === '') missing('build', 'is_blank');
      const params = { project_id: project, build_id: build };
      const failed = await call.route(`GET ${buildPath}/tests`, { params, query: { state: 'failed', limit } });
      const all = await call.route(`GET ${buildPath}/tests`, { params, query: { limit } });
      const shown = [...failed, ...all.filter(({ state }) => state !== 'failed')].slice(0, limit);
      return {
        facts: { project, build, tests: shown.length, failed: failed.length },
        quoted: shown.flatMap(({ name, class: of, suite, state, file, message }) => [
          plain(`${state}: ${[suite, of, name].filter(Boolean).join(' › ')}${file ? ` (${file})` : ''}`),
          ...(state === 'failed' && message !== '' ? plainLines(message).map((line) => `    ${line}`) : []),
        ]),
        isOfFork: await hasFork(call.db, [build]),
      };
    },
  },

  explain: {
    title: 'Explain a word',
    description: 'Says what a state or a failure reason means, and what to do, in the words of the documentation.',
    takes: ['word'],
    routes: () => [],
    async run({ words }, { word }) {
      const meanings = words(word);
      if (meanings.length === 0) missing('word');
      return { facts: { word, meanings: meanings.map(({ section, cells }) => ({ section, ...cells })) } };
    },
  },
};

async function isForkRequest(call: ToolCall, project: string, request: string): Promise<boolean> {
  const params = { project_id: project, build_request_id: request };
  return (await call.route(`GET ${requestPath}`, { params })).from_fork;
}
