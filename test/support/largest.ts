import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { sealedPlace } from '../../src/db/schema.ts';
import { longest, most, mostRecords } from '../../src/lib/bounds.ts';
import type { Answer, Client, Credentials, Record_ } from './client.ts';
import { addArtifact, addBuild, addCommit, copyRows } from './rows.ts';
import type { Service } from './service.ts';
import { Tab } from './tab.ts';
import { freshName, type User } from './user.ts';

/** Something that costs the most that a stranger can make it cost. What it needs was made before. */
export interface Largest {
  name: string;
  work: () => Promise<Pick<Answer, 'status'>>;
}

/** The largest inputs that are allowed, and the longest answers, one after the other. */
export async function* largestInputs(service: Service): AsyncGenerator<Largest> {
  const { store } = service;
  const owner = await service.user();
  const { credentials: as } = owner;
  const { api } = service;

  const values = Object.fromEntries(Array.from({ length: 990 }, (_, index) => [`f${index}`, 'x'.repeat(1000)]));
  const json = JSON.stringify(values);
  const headers = { 'content-type': 'application/json' };
  yield { name: 'a body of JSON', work: () => api.post('/projects', { as, body: json, headers }) };
  const form = new URLSearchParams(Object.entries(values)).toString();
  const asForm = { 'content-type': 'application/x-www-form-urlencoded' };
  yield { name: 'a form', work: () => api.post('/projects', { as, body: form, headers: asForm }) };

  const configured = await owner.createProject();
  const document = JSON.stringify({ document: documentFor(configured), prune: true });
  const path = `/projects/${configured.id}/config`;
  const apply = (): Promise<Answer> => api.put(path, { as, body: document, headers });
  yield { name: 'a document that makes everything', work: apply };
  yield { name: 'the same document again', work: apply };
  yield { name: 'the export of it', work: () => api.get(path, { as }) };

  const hooked = await owner.createProject();
  const { record: hook } = await owner.post(`/projects/${hooked.id}/hooks`, { provider: 'github' });
  for (const [kind, payload] of Object.entries(payloads())) {
    const signed = {
      ...headers,
      'x-github-event': 'push',
      'x-hub-signature-256': signature(String(hook.secret), payload),
    };
    yield {
      name: `a payload of ${kind}`,
      work: () => api.post(`/hooks/${hook.id}`, { body: payload, headers: signed }),
    };
  }

  const suites = await fullSuites(service, owner);
  yield { name: 'a list of suites', work: () => api.get(`/projects/${suites.id}/suites`, { as }) };
  yield { name: 'a list of variables', work: await fullVariables(service, owner) };

  const built = await matrixProject(owner);
  const commit = await addCommit(store, built, largeCommit());
  const request = { commit_ref: commit.ref };
  const start = (): Promise<Answer> => owner.post(`/projects/${built.id}/build_requests`, request);
  yield { name: 'a request with a thousand builds', work: start };
  const ruled = await ruledProject(service, owner);
  const judged = await addCommit(store, ruled, largeCommit());
  const judge = (): Promise<Answer> => owner.post(`/projects/${ruled.id}/build_requests`, { commit_ref: judged.ref });
  yield { name: 'a hundred rules on a long message', work: judge };

  const busy = await owner.createProject();
  await addCommit(store, busy, largeCommit());
  await copyRows(store, 'commits', 999, (index) => ({ ref: index.toString(16).padStart(40, '0') }));
  yield { name: 'a page of commits', work: () => api.get(`/projects/${busy.id}/commits?limit=1000`, { as }) };
  const tab = new Tab(service);
  await tab.signIn(owner.credentials);
  yield { name: "a project's page", work: () => tab.get(`/ui/projects/${busy.id}`) };

  const outcome = await artifactBuild(service, owner);
  yield { name: 'the begin of an archive of artifacts', work: () => begun(api, `${outcome}/artifacts.zip`, as) };

  await owner.createDependency({ description: 'x'.repeat(700) });
  await copyRows(store, 'dependencies', mostRecords.dependencies.most - 1, (index) => ({ name: `copy-${index}` }));
  yield { name: 'a list of dependencies', work: () => api.get('/dependencies', { as }) };
  const { list } = await owner.get('/projects');
  await owner.createProject({ description: 'x'.repeat(700) });
  await copyRows(store, 'projects', mostRecords.projects.most - list.length - 1, (index, id) => ({
    name: `copy-${index}`,
    ssh_public_key: store.vault.seal(String(list[0]?.ssh_public_key), sealedPlace(keyColumn, id)),
  }));
  yield { name: 'a list of projects', work: () => api.get('/projects', { as }) };
  yield { name: 'the dashboard', work: () => tab.get('/ui/') };
}

const keyColumn = { table: 'projects', column: 'ssh_public_key' } as const;

/** As many suites as a document can have, with rules and variables up to its length. */
function documentFor(project: Record_): string {
  const suites = Array.from({ length: most.suitesInDocument }, (_, index) => ({
    name: `suite ${index}`,
    command: 'x'.repeat(2500),
    rules: Array.from({ length: 7 }, (_, rule) => ({ subject: 'commit.ref', operator: 'equals', value: `v${rule}` })),
    variables: [{ name: 'V', content: 'x'.repeat(1000) }],
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

async function fullVariables(service: Service, owner: User): Promise<() => Promise<Answer>> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const path = `/projects/${project.id}/suites/${suite.id}/environment_variables`;
  const count = mostRecords.environment_variables.most;
  const content = 'x'.repeat(Math.floor((mostRecords.environment_variables.texts.bytes / count) * 0.7));
  for (let index = 0; index < count; index += 1) await owner.post(path, { name: `V${index}`, content });
  return () => service.api.get(path, { as: owner.credentials });
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

/** All of it would be ten thousand files. */
async function begun(api: Client, path: string, as: Credentials): Promise<Pick<Answer, 'status'>> {
  const answer = await api.open(path, { as });
  await once(answer, 'data');
  answer.destroy();
  return { status: answer.statusCode ?? 0 };
}
