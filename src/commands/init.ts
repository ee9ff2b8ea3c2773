import type { Answered, Project } from '../client/operations.ts';
import { forgeProviders } from '../domain/forge-providers.ts';
import { parseGitAddress, pastedAddress, locationOf } from '../domain/git-address.ts';
import { applyDocument } from './apply.ts';
import { Call } from './call.ts';
import { readDocument, type Document } from './documents.ts';
import { WrongUse } from './errors.ts';
import { repositoryFile, writeFirstFile } from './first-file.ts';
import { followRequest } from './follow.ts';
import { isSameRepository, remotes, topOf } from './git.ts';
import { agrees, ask, askSecret } from './question.ts';
import { run as runBuild } from './run.ts';
import { exitStatus, resultOf } from './states.ts';
import { clean, words } from './text.ts';

type Init = Call<{ yes?: true }>;
type Forge = Answered<'forges'>[number];

/** A repository at a forge, by its name there. */
interface Found {
  forge: Forge;
  repository: string;
}

/** The repository of the folder. */
interface Here {
  address: string;
  host: string;
  /** Its path on the host, without a slash before it. */
  path: string;
}

/** Leads from a clone to the first build. Each part is left out where it is done already. */
export async function run(call: Init): Promise<number | void> {
  const { client, screen, cwd } = call;
  const [top, addresses] = await Promise.all([topOf(cwd), remotes(cwd)]);
  const [address] = addresses;
  if (top === undefined || address === undefined)
    throw new WrongUse('This folder is no git repository with a remote. Add one with: git remote add origin ADDRESS');
  const present = await repositoryFile(top);
  const project = (await presentProject(call, addresses)) ?? (await makeProject(call, address));
  const inProject = { project_id: project.id_str };
  const file = present ?? (await writeFirstFile(top));
  if (!present)
    screen.print(`Wrote ${file.name}. Commit it: from then on each commit is built by the file that it holds.`);
  if (project.owned && (await client.call('suites', inProject)).length === 0) {
    const current = JSON.parse((await client.call('config', inProject)).document) as Document;
    // Of a file that others can push, no more than that: hooks and notifications stay with the owner.
    const { suites } = await readDocument(file.text, file.name);
    const document = { ...current, suites, config_file: file.name };
    await applyDocument(call, { document, file: file.name, project });
  }
  const [newest] = await client.call('requests', inProject, { limit: '1' });
  if (newest && (resultOf(newest.build_state) ?? exitStatus.passed) === exitStatus.passed)
    return followRequest(call, project, newest);
  await untilConnected(call, project);
  using building = new Call({ ...call.options, project: project.id_str, follow: true as const });
  return await runBuild(building);
}

/** The project that is named, or that builds the repository of the folder already. */
async function presentProject(call: Init, addresses: readonly string[]): Promise<Project | undefined> {
  if (call.options.project !== undefined || call.env.HEADRACE_PROJECT) return call.project();
  const projects = await call.client.call('projects');
  const isHere = ({ clone_url: url }: { clone_url: string }): boolean =>
    addresses.some((address) => isSameRepository(address, url));
  return projects.some(isHere) ? call.project() : undefined;
}

async function makeProject(call: Init, address: string): Promise<Project> {
  const { client, screen } = call;
  const { host = '', path = address } = locationOf(address) ?? {};
  const here = { address, host, path: path.replace(/^\/*(?:~\/)?/, '') };
  const found = await atForge(call, here);
  const project = found
    ? await client.call('newProject', {}, { forge_id: found.forge.id_str, repository: found.repository })
    : await client.call('newProject', {}, { name: await freeName(call, here), clone_url: pastedAddress(address) });
  const where = found ? words`, with its key, its hook and its statuses at ${found.forge.url}` : '';
  if (screen.isJson) screen.json(project);
  else screen.print(words`Made the project ${project.name}${where}.`);
  return project;
}

/** As the server chooses it for a repository at a forge. */
async function freeName({ client }: Init, { path }: Here): Promise<string> {
  const last = path.slice(path.lastIndexOf('/') + 1);
  const projects = await client.call('projects');
  return projects.some(({ owned, name }) => owned && name === last) ? path : last;
}

/** Where the repository is, by the forges that are connected; undefined if the person wants none. */
async function atForge(call: Init, here: Here): Promise<Found | undefined> {
  const forges = await call.client.call('forges');
  const listed = await Promise.all(forges.map((forge) => findAt(call, forge, here)));
  const known = listed.filter((one) => one !== undefined);
  // A forge that lists only a part of what it has knows it by its path.
  const near = forges.filter(({ url }) => locationOf(url)?.host === here.host);
  const found = known.length > 0 ? known : near.map((forge) => ({ forge, repository: here.path }));
  const [only, ...more] = found;
  if (only && more.length === 0) return only;
  if (only) {
    const about = words`${here.path} is at several forges that you have connected:`;
    const lines = found.map(({ forge: { url, login } }) => words`${url} as ${login}`);
    return found[await choose(call, about, lines)];
  }
  return connect(call, here);
}

/** How many pages of a forge's list are read. */
const mostPages = 10;

/** The repository in the list of a forge, by its address. */
async function findAt({ client, screen }: Init, forge: Forge, { address, path }: Here): Promise<Found | undefined> {
  const query = path.slice(path.lastIndexOf('/') + 1);
  try {
    for (let page = 1; page <= mostPages; page += 1) {
      const params = { forge_id: forge.id_str };
      const list = await client.call('forgeRepositories', params, { query, page: String(page) });
      const fits = list.find(
        (one) => isSameRepository(address, one.ssh_url) || isSameRepository(address, one.https_url),
      );
      if (fits) return { forge, repository: fits.full_name };
      if (list.length === 0) return undefined;
    }
  } catch (error) {
    // Another forge may have it.
    screen.hint(words`${forge.url}: ${(error as Error).message}`);
  }
  return undefined;
}

/** Connects the forge of the repository. */
async function connect(call: Init, here: Here): Promise<Found | undefined> {
  const { client, screen } = call;
  const kinds = Object.entries(forgeProviders);
  const choices = [...kinds.map(([, { name }]) => `connect ${name}`), 'without a forge: I install a key there myself'];
  const none = words`No forge that you have connected has ${here.host}/${here.path}.`;
  const [provider, { name, tokens, scopes }] = kinds[await choose(call, none, choices)] ?? [undefined, {}];
  if (provider === undefined) return undefined;
  const usual = `https://${here.host}`;
  const url = (await ask(screen, words`Its address [${usual}]: `)) || usual;
  screen.hint(words`Make a token at ${url}${tokens ?? ''}, with ${scopes ?? ''}.`);
  const token = await askSecret(screen, `Token for ${name}, which is not shown: `);
  if (token === '') throw new WrongUse('There was no token. Nothing was made.');
  const forge = await client.call('connectForge', {}, { provider, url, token });
  if (forge.state_reason !== '') screen.hint(clean(forge.state_reason));
  return (await findAt(call, forge, here)) ?? { forge, repository: here.path };
}

/** Asks for one of several, by its number. */
async function choose({ screen, options }: Init, about: string, choices: readonly string[]): Promise<number> {
  if (options.yes || !process.stdin.isTTY)
    throw new WrongUse(
      `${about.replace(/[.:]$/, '')}, and nobody can be asked here. Run headrace init at a terminal, without --yes. Nothing was made.`,
    );
  screen.hint(about);
  for (const [at, line] of choices.entries()) screen.hint(`  ${at + 1}  ${line}`);
  const answer = Number(await ask(screen, 'Which? '));
  if (!Number.isInteger(answer) || answer < 1 || answer > choices.length)
    throw new WrongUse('That is none of them. Nothing was made.');
  return answer - 1;
}

/** Waits for a person who installs the key, where no forge does that. */
async function untilConnected(call: Init, project: Project): Promise<void> {
  const { client, screen } = call;
  const isOpen = parseGitAddress(project.clone_url)?.scheme === 'https';
  if (project.forge_state !== 'none' || isOpen || call.options.yes || !process.stdin.isTTY) return;
  for (;;) {
    const { connected, message } = await client.call('checkConnection', { project_id: project.id_str });
    if (connected) return;
    screen.hint(clean(message));
    screen.hint('Install this key in the repository, so that it can be fetched:');
    screen.hint(clean(project.ssh_public_key));
    if (!(await agrees(screen, 'Is it there now?'))) throw new WrongUse('Go on later with: headrace init');
  }
}
