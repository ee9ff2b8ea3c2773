import type { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import type { BuildRequest, Commit, Project } from '../client/operations.ts';
import { WrongUse } from './errors.ts';
import { currentRef, isRemoteOf, remotes } from './git.ts';
import { words } from './text.ts';

interface Asking {
  client: Client;
  cwd: string;
}

export interface NamedIn {
  name: string;
  file: string;
}

/** By name or identifier. The default is the folder's project, or else the project that a file names. */
export async function findProject({ client, cwd }: Asking, named?: string, namedInFile?: NamedIn): Promise<Project> {
  if (named !== undefined && /^\d+$/.test(named)) {
    const project = await ifThere(client.call('project', { project_id: named }));
    return only(project ? [project] : [], named);
  }
  const [projects, addresses] = await Promise.all([client.call('projects'), named === undefined ? remotes(cwd) : []]);
  const wanted = named ?? (addresses.length === 0 ? namedInFile?.name : undefined);
  if (wanted !== undefined) {
    const found = projects.filter(({ name }) => name === wanted);
    return only(found, words`named ${wanted}`);
  }
  if (addresses.length === 0)
    throw new WrongUse('This folder is not a git repository with a remote. Name the project with --project NAME.');
  for (const address of addresses) {
    const found = projects.filter(({ clone_url: repository }) => isRemoteOf(address, repository));
    const both = namedInFile ? found.filter(({ name }) => name === namedInFile.name) : found;
    if (both.length > 0) return only(both, words`of ${address}`);
    if (namedInFile && found.length > 0)
      throw conflict(namedInFile, words`this folder is of ${found.map(({ name }) => name).join(', ')}`);
  }
  const none = words`no project of yours builds ${addresses[0] ?? ''}`;
  if (namedInFile) throw conflict(namedInFile, `of this folder, ${none}`);
  throw new WrongUse(`${none.replace('no', 'No')}. Name the project with --project NAME.`);
}

/** A file may be untrusted, so it does not decide if the folder has another project. */
function conflict({ name, file }: NamedIn, folder: string): WrongUse {
  return new WrongUse(`${words`${file} is of ${name}, and `}${folder}. Name the project with --project NAME.`);
}

function only(found: readonly Project[], what: string): Project {
  const [first, ...more] = found;
  if (first === undefined)
    throw new WrongUse(`There is no project ${what} that you can see. List them with: headrace projects`);
  if (more.length === 0) return first;
  const ids = found.map(({ id_str: id }) => id).join(', ');
  throw new WrongUse(`There are several projects ${what}. Choose one with --project ID: ${ids}`);
}

export async function ifThere<T>(asked: Promise<T>): Promise<T | undefined> {
  return asked.catch((error: unknown) => {
    if (error instanceof Failure && error.kind === 'not_found') return undefined;
    throw error;
  });
}

/** By name, or else by identifier. */
export function oneNamed<T extends { name: string; id_str: string }>(records: readonly T[], named: string) {
  return records.find(({ name }) => name === named) ?? records.find(({ id_str: id }) => id === named);
}

export function choose<T extends { name: string; id_str: string }>(
  project: Project,
  kind: string,
  records: readonly T[],
  named: string,
): T {
  const found = oneNamed(records, named);
  if (found) return found;
  const names = records.map(({ name }) => name).join(', ');
  throw new WrongUse(words`${project.name} has no ${kind} ${named}. It has: ${names || 'none'}`);
}

const mostRequests = 1000;

/** By identifier, or the newest request of a branch, tag or commit. The default is the folder's branch. */
export async function findRequest({ client, cwd }: Asking, project: Project, named?: string): Promise<BuildRequest> {
  const inProject = { project_id: project.id_str };
  if (named !== undefined && /^\d{8,}$/.test(named)) {
    const known = await ifThere(client.call('request', { ...inProject, build_request_id: named }));
    if (known) return known;
  }
  const ref = named ?? (await currentRef(cwd));
  for await (const request of requestsOf({ client }, project, ref)) return request;
  if (ref === undefined) throw new WrongUse(words`Nothing was built in ${project.name} yet. Start with: headrace run`);
  throw new WrongUse(words`Nothing was built of ${ref} in ${project.name}. Start with: headrace run ${ref}`);
}

/** Of a branch, a tag or a commit, or all; the newest first. */
export async function* requestsOf(
  { client }: Pick<Asking, 'client'>,
  project: Project,
  ref: string | undefined,
): AsyncGenerator<BuildRequest> {
  // Most users want a recent one, so a short list is requested first.
  let before: string | undefined;
  for (let seen = 0; seen < mostRequests;) {
    const limit = String(seen === 0 ? 30 : mostRequests - seen);
    const requests = await client.call('requests', { project_id: project.id_str }, { limit, before });
    yield* ref === undefined ? requests : requests.filter((request) => isOf(request, ref));
    if (requests.length < Number(limit)) return;
    seen += requests.length;
    before = requests.at(-1)?.id_str;
  }
}

function isOf(request: BuildRequest, ref: string): boolean {
  return request.commit_ref === ref || (request.event !== 'pull_request' && request.target_branch === ref);
}

/** By identifier or SHA, which may be short. */
export async function findCommit(call: Asking, project: Project, named: string): Promise<Commit> {
  const { client } = call;
  const inProject = { project_id: project.id_str };
  if (/^[0-9a-f]{7,40}$/i.test(named)) {
    const commits = await client.call('commits', inProject, { limit: '1000' });
    const found = commits.filter(({ ref }) => ref.startsWith(named.toLowerCase()));
    const [newest] = found;
    if (newest) return client.call('commit', { ...inProject, commit_id: newest.id_str });
  }
  if (/^\d+$/.test(named)) return client.call('commit', { ...inProject, commit_id: named });
  const request = await findRequest(call, project, named);
  if (request.commit_id_str === '')
    throw new WrongUse(words`The commit of ${named} is not fetched yet. Try again later.`);
  return client.call('commit', { ...inProject, commit_id: request.commit_id_str });
}
