import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sealedLocation, type CommitRow } from '../../src/server/db/schema.ts';
import { longest, most, mostRecords } from '../../src/shared/domain/bounds.ts';
import { writeListing } from '../../src/shared/domain/ref-listings.ts';
import { ClientThread, type Request_ } from './client-thread.ts';
import type { Record_ } from './client.ts';
import { longestTurn } from './event-loop.ts';
import { connectionPath, protocolHeader, protocolNumber } from '../../src/shared/protocol/index.ts';
import { registered } from './registered.ts';
import { addArtifact, addBuild, addCommit, copyRows } from './rows.ts';
import type { Service } from './service.ts';
import { Tab } from './tab.ts';
import { freshName, type User } from './user.ts';

/** Something that costs the most that a stranger can make it cost. What it needs was made before. */
interface Largest {
  name: string;
  request: Request_;
}

/** How long each of them holds the server's thread at most. */
export async function* holdsOf(service: Service): AsyncGenerator<{ name: string; longestMs: number; status: number }> {
  const certificate = readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
  const client = new ClientThread({ address: service.address, certificate });
  try {
    for await (const { name, request } of largestInputs(service)) {
      const { result: status, longestMs } = await longestTurn(await client.prepare(request));
      yield { name, longestMs, status };
    }
  } finally {
    await client.close();
  }
}

/** The largest inputs that are allowed, and the longest answers, one after the other. */
async function* largestInputs(service: Service): AsyncGenerator<Largest> {
  const { store } = service;
  const owner = await service.user();
  const { credentials: as } = owner;
  const get = (path: string): Request_ => ({ method: 'GET', path, as });
  const post = (path: string, body: string, type = 'application/json'): Request_ => ({
    method: 'POST',
    path,
    as,
    body,
    headers: { 'content-type': type },
  });

  const values = Object.fromEntries(Array.from({ length: 990 }, (_, index) => [`f${index}`, 'x'.repeat(1000)]));
  yield { name: 'a body of JSON', request: post('/projects', JSON.stringify(values)) };
  const numbers = JSON.stringify({ numbers: Array.from({ length: 500_000 }, () => 1) });
  yield { name: 'a body of many numbers', request: post('/projects', numbers) };
  const form = new URLSearchParams(Object.entries(values)).toString();
  yield { name: 'a form', request: post('/projects', form, 'application/x-www-form-urlencoded') };

  const configured = await owner.createProject();
  const document = JSON.stringify({ document: documentFor(configured), prune: true });
  const path = `/projects/${configured.id}/config`;
  const apply = { ...post(path, document), method: 'PUT' };
  yield { name: 'a document that makes everything', request: apply };
  yield { name: 'the same document again', request: apply };
  yield { name: 'the export of it', request: get(path) };

  const hooked = await owner.createProject();
  const { record: hook } = await owner.post(`/projects/${hooked.id}/hooks`, { provider: 'github' });
  for (const [kind, payload] of Object.entries(payloads())) {
    const proof = { 'x-github-event': 'push', 'x-hub-signature-256': signature(String(hook.secret), payload) };
    const headers = { 'content-type': 'application/json', ...proof };
    const request = { method: 'POST', path: `/hooks/${hook.id}`, body: payload, headers };
    yield { name: `a payload of ${kind}`, request };
  }

  const suites = await fullSuites(service, owner);
  yield { name: 'a list of suites', request: get(`/projects/${suites.id}/suites`) };
  yield { name: 'a list of variables', request: get(await fullVariables(owner)) };

  const built = await matrixProject(owner);
  const commit = await addCommit(store, built, largeCommit());
  const ask = (project: Record_, { ref }: CommitRow): Request_ =>
    post(`/projects/${project.id}/build_requests`, JSON.stringify({ commit_ref: ref }));
  yield { name: 'a request with a thousand builds', request: ask(built, commit) };
  const ruled = await ruledProject(service, owner);
  const judged = await addCommit(store, ruled, largeCommit());
  yield { name: 'a hundred rules on a long message', request: ask(ruled, judged) };

  const busy = await owner.createProject();
  await addCommit(store, busy, largeCommit());
  await copyRows(store, 'commits', 999, (index) => ({ ref: index.toString(16).padStart(40, '0') }));
  yield { name: 'a page of commits', request: get(`/projects/${busy.id}/commits?limit=1000`) };
  const tab = new Tab(service);
  await tab.signIn(owner.credentials);
  const cookie = Array.from(tab.cookies, ([name, value]) => `${name}=${value}`).join('; ');
  const page = (path: string): Request_ => ({ method: 'GET', path, headers: { cookie } });
  yield { name: "a project's page", request: page(`/ui/projects/${busy.id}`) };

  const artifacts = `${await artifactBuild(service, owner)}/artifacts.zip`;
  yield { name: 'the begin of an archive of artifacts', request: { ...get(artifacts), isLong: true } };
  yield* largestLooks(service, owner);

  await owner.createDependency({ description: 'x'.repeat(700) });
  await copyRows(store, 'dependencies', mostRecords.dependencies.most - 1, (index) => ({ name: `copy-${index}` }));
  yield { name: 'a list of dependencies', request: get('/dependencies') };
  const { list } = await owner.get('/projects');
  await owner.createProject({ description: 'x'.repeat(700) });
  await copyRows(store, 'projects', mostRecords.projects.most - list.length - 1, (index, id) => ({
    name: `copy-${index}`,
    ssh_public_key: store.vault.seal(String(list[0]?.ssh_public_key), sealedLocation(keyColumn, id)),
  }));
  yield { name: 'a list of projects', request: get('/projects') };
  yield { name: 'the dashboard', request: page('/ui/') };
}

/** The first listing of a repository with very many tags, and one in which all of them have moved. */
async function* largestLooks(service: Service, owner: User): AsyncGenerator<Largest> {
  await owner.createProject({ poll_interval: '60' });
  const { token, link } = await registered(service);
  const headers = { authorization: `Bearer ${token}`, [protocolHeader]: protocolNumber };
  for (const [name, digit] of Object.entries({ 'a first listing of refs': 'a', 'a listing of moved refs': 'b' })) {
    await service.store.db.transaction((trx) => trx.updateTable('polls').set({ next_poll_at: 0n }).execute());
    const [look] = await link.polls({ room: 1 }, new AbortController().signal);
    if (!look) throw new Error('there is no look to take');
    const refs = Array.from({ length: most.refs }, (_, at) => [
      `refs/tags/${String(at).padStart(90, 'v')}`,
      digit.repeat(40),
    ]);
    const listing = writeListing(new Map(refs as [string, string][]));
    const report = { projectId: look.source.projectId, claim: look.claim, seen: { listing } };
    const message = JSON.stringify({ id: 1, call: 'polled', reports: [report] });
    yield { name, request: { method: 'GET', path: connectionPath, headers, message } };
  }
  link.close();
}

const keyColumn = { table: 'projects', column: 'ssh_public_key' } as const;

/** As many suites as a document can have, with rules and variables up to its length. */
function documentFor(project: Record_): string {
  const suites = Array.from({ length: most.suitesInDocument }, (_, index) => ({
    name: `suite ${index}`,
    command: 'x'.repeat(2500),
    rules: Array.from({ length: 7 }, (_, rule) => ({ subject: 'commit.ref', operator: 'equals', value: `v${rule}` })),
    variables: [{ name: 'V', content: 'x'.repeat(1000), secret: false }],
  }));
  const { name, repository_url: url } = project;
  const text = JSON.stringify({ name, repository_url: url, suites });
  return fitting(text);
}

function fitting(text: string): string {
  if (text.length > longest.document) throw new Error(`the document has ${text.length} characters`);
  return text;
}

function payloads(): Record<string, string> {
  const base = {
    ref: 'refs/heads/main',
    after: 'a'.repeat(40),
    repository: { full_name: 'a/b' },
    sender: { login: 'x' },
  };
  const room = 24 * 1024 * 1024;
  return {
    'one long text': JSON.stringify({ ...base, head_commit: { message: 'x'.repeat(room) } }),
    'many values': JSON.stringify({ ...base, commits: Array.from({ length: 1_900_000 }, () => 1) }),
  };
}

function signature(secret: string, payload: string): string {
  return `sha256=${createHmac('sha256', secret).update(payload).digest('hex')}`;
}

async function fullSuites({ store }: Service, owner: User): Promise<Record_> {
  const project = await owner.createProject();
  await owner.createSuite(project, { command: 'x'.repeat(longest.command - 1000) });
  const count = Math.floor(mostRecords.suites.texts.bytes / longest.command);
  await copyRows(store, 'suites', count - 1, (index) => ({ name: `copy-${index}` }));
  return project;
}

async function fullVariables(owner: User): Promise<string> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const path = `/projects/${project.id}/suites/${suite.id}/environment_variables`;
  const count = mostRecords.environment_variables.most;
  const content = 'x'.repeat(Math.floor((mostRecords.environment_variables.texts.bytes / count) * 0.7));
  for (let index = 0; index < count; index += 1) await owner.post(path, { name: `V${index}`, content });
  return path;
}

/** Four suites, each with as many variants as can be. */
async function matrixProject(owner: User): Promise<Record_> {
  const project = await owner.createProject();
  const axis = (name: string): string => `${name}=${Array.from({ length: 16 }, (_, index) => index).join(',')}`;
  for (let index = 0; index < 4; index += 1)
    await owner.createSuite(project, { 'matrix[]': `${axis('A')}\n${axis('B')}` });
  return project;
}

/** One suite with as many rules as can be, all of which hold. */
async function ruledProject({ store }: Service, owner: User): Promise<Record_> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const rules = `/projects/${project.id}/suites/${suite.id}/rules`;
  const value = `${'(x|y)'.repeat(60)}[^z]*$`;
  const made = await owner.post(rules, { subject: 'commit.message', operator: 'matches', value });
  if (made.status !== 201) throw new Error(made.text);
  await copyRows(store, 'suite_rules', mostRecords.suite_rules.most - 1, () => ({}));
  return project;
}

function largeCommit() {
  const names = JSON.stringify(Array.from({ length: 10_000 }, (_, index) => `src/${String(index).padStart(44, 'x')}`));
  return { message: 'x'.repeat(65_536), files: names, branches: '["main"]' };
}

async function artifactBuild({ store }: Service, owner: User): Promise<string> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const commit = await addCommit(store, project);
  const buildRequest = await owner.requestBuild(project);
  const build = await addBuild(store, project, { commit, buildRequest, suite });
  await addArtifact(store, build, freshName('file'));
  await copyRows(store, 'artifacts', 9_999, (index) => ({ path: `${'dddddddd/'.repeat(100)}${index}` }));
  return `/projects/${project.id}/builds/${build.id}`;
}
