import type { Answered, Project } from '../client/operations.ts';
import { forgeProviders, scopesInWords, tokensAt } from '../domain/forge-providers.ts';
import { locationOf } from '../domain/git-address.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { isSameRepository } from './git.ts';
import { agrees, ask, askSecret } from './question.ts';
import { clean, words } from './text.ts';

/** The forge of a folder's repository, for `headrace init`. */

export type Init = Call<{ yes?: true; forge?: string }>;
type Forge = Answered<'forges'>[number];

/** A repository at a forge, by its name there. */
export interface Found {
  forge: Forge;
  repository: string;
}

/** The repository of the folder. */
export interface Here {
  address: string;
  host: string;
  /** Its path on the host, without a slash before it. */
  path: string;
}

export function hereOf(address: string): Here {
  const { host = '', path = address } = locationOf(address) ?? {};
  return { address, host, path: path.replace(/^\/*(?:~\/)?/, '') };
}

/** What `--forge` says if the person installs the key. */
const none = 'none';

export function canAsk({ options }: Init): boolean {
  return !options.yes && process.stdin.isTTY;
}

/** Where the repository is; undefined if the person wants no forge. */
export async function forgeFor(call: Init, here: Here): Promise<Found | undefined> {
  if (call.options.forge === none) return undefined;
  const found = await connectedForges(call, here);
  return found.length === 0 ? connectOne(call, here) : oneOf(call, here, found);
}

/** Connects a project that is there, or mends what it lacks at its forge. It says how the project stands. */
export async function joinForge(call: Init, project: Project): Promise<Project> {
  const { client, screen } = call;
  if (!project.owned || call.options.forge === none) return project;
  const found = await forgeOf(call, project);
  if (!found) return project;
  const { forge, repository } = found;
  if (project.forge_state === 'connected') {
    if (!screen.isJson) screen.print(words`The project ${project.name} is connected to ${repository} at ${forge.url}.`);
    return project;
  }
  const lacks =
    project.forge_state === 'none'
      ? words`The project ${project.name} is not connected to ${repository} at ${forge.url}.`
      : words`The project ${project.name} is incomplete at ${forge.url}: ${project.forge_state_reason}`;
  if (!call.options.yes) {
    screen.hint(lacks);
    if (!canAsk(call)) screen.hint('Connect it with: headrace init --yes');
    if (!canAsk(call) || !(await agrees(screen, 'Put its key, its hook and its statuses there?'))) return project;
  }
  const fields = { forge_id: forge.id_str, repository };
  const joined = await client.call('connectProject', { project_id: project.id_str }, fields);
  if (screen.isJson) screen.json(joined);
  else screen.print(words`Connected ${project.name}: its key, its hook and its statuses are at ${forge.url}.`);
  return joined;
}

/** The forge that the project is connected to, or the one that has its repository. */
async function forgeOf(call: Init, project: Project): Promise<Found | undefined> {
  if (project.forge_state !== 'none') {
    const forge = (await call.client.call('forges')).find(({ id_str: id }) => id === project.forge_id_str);
    return forge && { forge, repository: project.forge_repository };
  }
  const here = hereOf(project.clone_url);
  const found = await connectedForges(call, here);
  return found.length === 0 ? undefined : oneOf(call, here, found);
}

/** The connected forges that have the repository, or the one that is named. */
async function connectedForges(call: Init, here: Here): Promise<Found[]> {
  const forges = named(call, await call.client.call('forges'));
  const listed = await Promise.all(forges.map((forge) => findAt(call, forge, here)));
  const known = listed.filter((one) => one !== undefined);
  if (known.length > 0) return known;
  // A forge that lists only a part of what it has knows it by its path.
  const isMeant = ({ url }: Forge): boolean => call.options.forge !== undefined || locationOf(url)?.host === here.host;
  return forges.filter(isMeant).map((forge) => ({ forge, repository: here.path }));
}

/** Those that `--forge` names by their identifier or address; all without it. */
function named({ options: { forge: wanted } }: Init, forges: readonly Forge[]): readonly Forge[] {
  if (wanted === undefined) return forges;
  const address = wanted.replace(/\/+$/, '').toLowerCase();
  const isNamed = ({ id_str: id, url }: Forge): boolean =>
    id === wanted || [url.toLowerCase(), new URL(url).host].includes(address);
  const found = forges.filter(isNamed);
  if (found.length === 0)
    throw new WrongUse(words`You have connected no forge ${wanted}. Connected: ${listOf(forges) || 'none'}`);
  return found;
}

function listOf(forges: readonly Forge[]): string {
  return forges.map(({ id_str: id, url, login }) => `${id} (${url} as ${login})`).join(', ');
}

async function oneOf(call: Init, { path }: Here, found: readonly Found[]): Promise<Found | undefined> {
  if (found.length === 1) return found[0];
  const forges = found.map(({ forge }) => forge);
  const about = words`${path} is at several forges that you have connected`;
  const lines = forges.map(({ url, login }) => words`${url} as ${login}`);
  return found[await choose(call, about, lines, words`Say which with --forge: ${listOf(forges)}`)];
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
async function connectOne(call: Init, here: Here): Promise<Found | undefined> {
  const { client, screen } = call;
  const kinds = Object.keys(forgeProviders) as (keyof typeof forgeProviders)[];
  const names = kinds.map((kind) => `connect ${forgeProviders[kind].name}`);
  const choices = [...names, 'without a forge: I install a key there myself'];
  const about = words`No forge that you have connected has ${here.host}/${here.path}`;
  const otherwise = `Run headrace init at a terminal, or with --forge ${none} to install the key yourself.`;
  const provider = kinds[await choose(call, about, choices, otherwise)];
  if (provider === undefined) return undefined;
  const usual = `https://${here.host}`;
  const url = (await ask(screen, words`Its address [${usual}]: `)) || usual;
  const { tokens, scopes } = tokensAt({ provider, url });
  screen.hint(words`Make a token at ${url}${tokens}, with the ${scopesInWords(scopes)}.`);
  const token = await askSecret(screen, `Token for ${forgeProviders[provider].name}, which is not shown: `);
  if (token === '') throw new WrongUse('There was no token. Nothing was made.');
  const forge = await client.call('connectForge', {}, { provider, url, token });
  if (forge.state_reason !== '') screen.hint(clean(forge.state_reason));
  return (await findAt(call, forge, here)) ?? { forge, repository: here.path };
}

/** Asks for one of several, by its number. `otherwise` says what to do where nobody can be asked. */
async function choose(call: Init, about: string, choices: readonly string[], otherwise: string): Promise<number> {
  const { screen } = call;
  if (!canAsk(call)) throw new WrongUse(`${about}, and nobody can be asked here. ${otherwise} Nothing was made.`);
  screen.hint(`${about}:`);
  for (const [at, line] of choices.entries()) screen.hint(`  ${at + 1}  ${line}`);
  const answer = Number(await ask(screen, 'Which? '));
  if (!Number.isInteger(answer) || answer < 1 || answer > choices.length)
    throw new WrongUse('That is none of them. Nothing was made.');
  return answer - 1;
}
