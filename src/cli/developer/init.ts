import type { BuildRequest, Project } from '../client/operations.ts';
import { parseGitAddress, pastedAddress } from '../../shared/domain/git-address.ts';
import { applyDocument, WouldDelete } from './apply.ts';
import { Call } from './call.ts';
import { readDocument, type Document } from './documents.ts';
import { WrongUse } from './errors.ts';
import { repositoryFile, writeFirstFile, type RepositoryFile } from './first-file.ts';
import { followRequest } from './follow.ts';
import { currentCommit, isRemoteOf, remotes, topOf } from './git.ts';
import { canAsk, forgeFor, hereOf, joinForge, type Here, type Init } from './init-forge.ts';
import { run as login } from './login.ts';
import { agrees, ask } from './question.ts';
import { run as runBuild } from './run.ts';
import { isSignedIn } from './session.ts';
import { exitStatus, resultOf } from './states.ts';
import { clean, words } from './text.ts';

/** Leads from a clone to the first build. Completed parts are skipped. */
export async function run(call: Init): Promise<number | void> {
  const { cwd } = call;
  const [top, addresses] = await Promise.all([topOf(cwd), remotes(cwd)]);
  const [address] = addresses;
  if (top === undefined)
    throw new WrongUse('This folder is not a git repository. Run headrace init in a clone of one.');
  if (address === undefined)
    throw new WrongUse('This git repository has no remote. Add one with: git remote add origin ADDRESS');
  const present = await repositoryFile(top);
  using _ = call.screen.gather();
  await signIn(call);
  const known = await presentProject(call, addresses);
  const project = known ? await joinForge(call, known) : await makeProject(call, hereOf(address));
  if (call.screen.isJson) call.screen.json({ project });
  await makeSuites(call, project, { top, present });
  const newest = await builtAlready(call, project);
  if (newest) return await followRequest(call, project, newest);
  await untilConnected(call, project);
  using building = new Call(
    { ...call.options, project: project.id_str, follow: true as const, reuse: true },
    call.screen,
  );
  return await runBuild(building);
}

async function signIn(call: Init): Promise<void> {
  const { env, screen, options } = call;
  if (isSignedIn(env) || !canAsk(call)) return;
  const address = env.HEADRACE_URL || (await ask(screen, 'Address of the server, such as https://ci.example.org: '));
  if (address === '') throw new WrongUse('No address was entered. Nothing was created.');
  using signing = new Call({ ...options, browser: true }, screen);
  await login(signing, address);
}

/** The named project, or one that already builds the folder's repository. */
async function presentProject(call: Init, addresses: readonly string[]): Promise<Project | undefined> {
  if (call.options.project !== undefined || call.env.HEADRACE_PROJECT) return call.project();
  const projects = await call.client.call('projects');
  const isHere = ({ clone_url: url }: { clone_url: string }): boolean =>
    addresses.some((address) => isRemoteOf(address, url));
  return projects.some(isHere) ? call.project() : undefined;
}

async function makeProject(call: Init, here: Here): Promise<Project> {
  const { client, screen } = call;
  const found = await forgeFor(call, here);
  const project = found
    ? await client.call('newProject', {}, { forge_id: found.forge.id_str, repository: found.repository })
    : await client.call('newProject', {}, { name: await freeName(call, here), clone_url: pastedAddress(here.address) });
  const where = found ? words`, with its key, its hook and its statuses at ${found.forge.url}` : '';
  screen.print(words`Created the project ${project.name}${where}.`);
  return project;
}

/** As the server chooses it for a repository at a forge. */
async function freeName({ client }: Init, { path }: Here): Promise<string> {
  const last = path.slice(path.lastIndexOf('/') + 1);
  const projects = await client.call('projects');
  return projects.some(({ owned, name }) => owned && name === last) ? path : last;
}

/** Creates the file's suites, and a first file if the project has none of either. Nothing is deleted. */
async function makeSuites(
  call: Init,
  project: Project,
  { top, present }: { top: string; present: RepositoryFile | undefined },
): Promise<void> {
  const { client, screen } = call;
  const inProject = { project_id: project.id_str };
  const isNew = (await client.call('suites', inProject)).length === 0;
  const file = present ?? (isNew ? await writeFirstFile(top, () => commandOf(call)) : undefined);
  if (file && !present)
    screen.print(`Wrote ${file.name}. Commit it: from then on, each commit is built by its own file.`);
  if (!file || !project.owned) return;
  const current = JSON.parse((await client.call('config', inProject)).document) as Document;
  // Other users can push this file, so it sets only suites. Hooks and notifications stay with the owner.
  const read = await readDocument(file.text, file.name);
  if (read.isPartial)
    return call.screen.hint(
      `${file.name} includes files of other projects, so its suites are first read with a build.`,
    );
  const { suites } = read.plain as Document;
  const document = isNew
    ? { ...current, suites, config_file: file.name }
    : { ...current, suites: together(suitesIn(suites), suitesIn(current.suites)) };
  try {
    await applyDocument(call, { document, file: file.name, project });
  } catch (error) {
    if (!(error instanceof WouldDelete)) throw error;
    screen.hint(
      `${file.name} was not applied, because it lacks some of the project’s settings. To apply it: headrace apply`,
    );
  }
}

/** Blank if no user can answer. */
async function commandOf(call: Init): Promise<string> {
  if (!canAsk(call)) return '';
  call.screen.hint('No known file here shows how to test this repository.');
  return ask(call.screen, 'Command that tests it (blank to write it later): ');
}

type NamedSuite = Record<string, unknown>;

function suitesIn(list: unknown): NamedSuite[] {
  return Array.isArray(list) ? (list as NamedSuite[]) : [];
}

/** The file's suites win over the project's of the same name, and keep those fields that only the project has. */
function together(ofFile: readonly NamedSuite[], ofProject: readonly NamedSuite[]): NamedSuite[] {
  const same = (suite: NamedSuite) => (other: NamedSuite) => other.name === suite.name;
  return [
    ...ofFile.map((suite) => ({ ...ofProject.find(same(suite)), ...suite })),
    ...ofProject.filter((suite) => !ofFile.some(same(suite))),
  ];
}

/** The newest request, if the checked-out commit passes in it or it is still running. */
async function builtAlready({ client, cwd }: Init, project: Project): Promise<BuildRequest | undefined> {
  const inProject = { project_id: project.id_str };
  const [newest] = await client.call('requests', inProject, { limit: '1' });
  if (!newest) return undefined;
  const result = resultOf(newest.build_state);
  if (result === undefined) return newest;
  if (result !== exitStatus.passed || newest.commit_id_str === '') return undefined;
  const { ref } = await client.call('commit', { ...inProject, commit_id: newest.commit_id_str });
  return ref === (await currentCommit(cwd)) ? newest : undefined;
}

/** Waits until the user has installed the key, if one is needed and no forge does it. */
async function untilConnected(call: Init, project: Project): Promise<void> {
  const { client, screen } = call;
  const isOpen = parseGitAddress(project.clone_url)?.scheme === 'https';
  if (project.forge_state !== 'none' || isOpen) return;
  for (;;) {
    const { connected, message } = await client.call('checkConnection', { project_id: project.id_str });
    if (connected) return;
    screen.hint(clean(message));
    screen.hint('Install this key in the repository, so that it can be fetched:');
    screen.hint(clean(project.ssh_public_key));
    if (!canAsk(call) || !(await agrees(screen, 'Is it installed?')))
      throw new WrongUse('When it is installed, continue with: headrace init');
  }
}
