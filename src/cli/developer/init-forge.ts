import { setTimeout as pause } from 'node:timers/promises';
import type { Answered, Project } from '../client/operations.ts';
import { forgeProviders, scopesInWords, tokensAt } from '../../shared/domain/forge-providers.ts';
import { locationOf } from '../../shared/domain/git-address.ts';
import { Failure } from '../client/failure.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { isRemoteOf } from './git.ts';
import { agrees, ask, askSecret } from './question.ts';
import type { Screen } from './screen.ts';
import { clean, words } from './text.ts';

export type Init = Call<{ yes?: true; forge?: string }>;
type Forge = Answered<'forges'>[number];

export interface RepositoryAtForge {
  forge: Forge;
  repository: string;
}

export interface Here {
  address: string;
  host: string;
  /** Its path on the host, without a leading slash. */
  path: string;
}

export function hereOf(address: string): Here {
  const { host = '', path = address } = locationOf(address) ?? {};
  return { address, host, path: path.replace(/^\/*(?:~\/)?/, '') };
}

/** `--forge none`: the user installs the key. */
const none = 'none';

export function canAsk({ options }: Init): boolean {
  return !options.yes && process.stdin.isTTY;
}

export async function forgeFor(call: Init, here: Here): Promise<RepositoryAtForge | undefined> {
  if (call.options.forge === none) return undefined;
  const found = await connectedForges(call, here);
  return found.length === 0 ? connectOne(call, here) : oneOf(call, here, found);
}

/** Connects an existing project, or repairs its connection, and reports its state. */
export async function joinForge(call: Init, project: Project): Promise<Project> {
  const { client, screen } = call;
  if (!project.owned || call.options.forge === none) return project;
  const found = await forgeOf(call, project);
  if (!found) return project;
  const { forge, repository } = found;
  if (project.forge_state === 'connected') {
    screen.print(words`The project ${project.name} is connected to ${repository} at ${forge.url}.`);
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
  screen.print(words`Connected ${project.name}: its key, its hook and its statuses are at ${forge.url}.`);
  return joined;
}

/** The project's forge, or else one that has its repository. */
async function forgeOf(call: Init, project: Project): Promise<RepositoryAtForge | undefined> {
  if (project.forge_state !== 'none') {
    const forge = (await call.client.call('forges')).find(({ id_str: id }) => id === project.forge_id_str);
    return forge && { forge, repository: project.forge_repository };
  }
  const here = hereOf(project.clone_url);
  const found = await connectedForges(call, here);
  return found.length === 0 ? undefined : oneOf(call, here, found);
}

async function connectedForges(call: Init, here: Here): Promise<RepositoryAtForge[]> {
  const forges = named(call, await call.client.call('forges'));
  const known = await foundAt(call, forges, here);
  if (known.length > 0) return known;
  // A forge that lists only some repositories still finds this one by its path.
  const isMeant = ({ url }: Forge): boolean => call.options.forge !== undefined || locationOf(url)?.host === here.host;
  return forges.filter(isMeant).map((forge) => ({ forge, repository: here.path }));
}

/** The wait for other forges after one has the repository. */
const longestWaitMs = 2500;

/** A silent forge delays nothing. */
async function foundAt(call: Init, forges: readonly Forge[], here: Here): Promise<RepositoryAtForge[]> {
  const looking = forges.map((forge) => findAt(call, forge, here));
  const isFound = Promise.any(looking.map(async (one) => (await one) ?? Promise.reject(new Error('not there'))));
  const never = new Promise<never>(() => {});
  const late = isFound.then(
    () => pause(longestWaitMs, 'late' as const, { ref: false }),
    () => never,
  );
  const listed = await Promise.all(
    looking.map(async (one, at) => {
      const tell = (text: string): undefined => call.screen.hint(clean(`${forges[at]?.url ?? ''}${text}`)) as undefined;
      try {
        const found = await Promise.race([one, late]);
        return found === 'late' ? tell(` has not answered within ${longestWaitMs / 1000} seconds.`) : found;
      } catch (error) {
        return tell(`: ${(error as Error).message}`); // another forge may have it
      }
    }),
  );
  return listed.filter((one) => one !== undefined);
}

function named({ options: { forge: wanted } }: Init, forges: readonly Forge[]): readonly Forge[] {
  if (wanted === undefined) return forges;
  const address = wanted.replace(/\/+$/, '').toLowerCase();
  const isNamed = ({ id_str: id, url }: Forge): boolean =>
    id === wanted || [url.toLowerCase(), new URL(url).host].includes(address);
  const found = forges.filter(isNamed);
  if (found.length === 0)
    throw new WrongUse(words`You have no connected forge ${wanted}. Connected: ${listOf(forges) || 'none'}`);
  return found;
}

function listOf(forges: readonly Forge[]): string {
  return forges.map(({ id_str: id, url, login }) => `${id} (${url} as ${login})`).join(', ');
}

async function oneOf(
  call: Init,
  { path }: Here,
  found: readonly RepositoryAtForge[],
): Promise<RepositoryAtForge | undefined> {
  if (found.length === 1) return found[0];
  const forges = found.map(({ forge }) => forge);
  const about = words`${path} is at several of your connected forges`;
  const lines = forges.map(({ url, login }) => words`${url} as ${login}`);
  return found[await choose(call, about, lines, words`Choose one with --forge: ${listOf(forges)}`)];
}

const mostPages = 10;

/** Matched by address. */
async function findAt({ client }: Init, forge: Forge, { address, path }: Here): Promise<RepositoryAtForge | undefined> {
  const query = path.slice(path.lastIndexOf('/') + 1);
  for (let page = 1; page <= mostPages; page += 1) {
    const params = { forge_id: forge.id_str };
    const list = await client.call('forgeRepositories', params, { query, page: String(page) });
    const fits = list.find((one) => isRemoteOf(address, one.ssh_url) || isRemoteOf(address, one.https_url));
    if (fits) return { forge, repository: fits.full_name };
    if (list.length === 0) return undefined;
  }
  return undefined;
}

async function connectOne(call: Init, here: Here): Promise<RepositoryAtForge | undefined> {
  const { client, screen } = call;
  const about = words`None of your connected forges has ${here.host}/${here.path}`;
  const otherwise = `Run headrace init at a terminal, or with --forge ${none} to install the key yourself.`;
  const known = kinds.find((kind) => new URL(forgeProviders[kind].url).host === here.host);
  if (known !== undefined && canAsk(call)) screen.hint(`${about}. Leave the token blank to install a key yourself.`);
  const choices = [
    ...kinds.map((kind) => `connect ${forgeProviders[kind].name}`),
    'without a forge: I install a key myself',
  ];
  const provider = canAsk(call) && known !== undefined ? known : kinds[await choose(call, about, choices, otherwise)];
  if (provider === undefined) return undefined;
  const usual = `https://${here.host}`;
  const forge = await answered(screen, async () => {
    const url = known === undefined ? (await ask(screen, words`Its address [${usual}]: `)) || usual : usual;
    if (!URL.canParse(url)) throw new WrongUse(words`${url} is not an address. Write it as ${usual}`);
    const { tokens, scopes } = tokensAt({ provider, url });
    screen.hint(words`Create a token at ${url}${tokens}, with the ${scopesInWords(scopes)}.`);
    const token = await askSecret(screen, `Token for ${forgeProviders[provider].name} (hidden as you type): `);
    if (token !== '') return client.call('connectForge', {}, { provider, url, token });
    if (known === undefined) throw new WrongUse('No token was entered.');
    return undefined;
  });
  if (!forge) return undefined;
  if (forge.state_reason !== '') screen.hint(clean(forge.state_reason));
  const [found] = await foundAt(call, [forge], here);
  return found ?? { forge, repository: here.path };
}

const kinds = Object.keys(forgeProviders) as (keyof typeof forgeProviders)[];

/** `otherwise` is the advice if no user can answer. */
async function choose(call: Init, about: string, choices: readonly string[], otherwise: string): Promise<number> {
  const { screen } = call;
  if (!canAsk(call))
    throw new WrongUse(`${about}, and there is no terminal to ask on. ${otherwise} Nothing was created.`);
  screen.hint(`${about}:`);
  for (const [at, line] of choices.entries()) screen.hint(`  ${at + 1}  ${line}`);
  return answered(screen, async () => {
    const answer = Number(await ask(screen, 'Which? '));
    if (choices[answer - 1] === undefined) throw new WrongUse(`Type a number from 1 to ${choices.length}.`);
    return answer - 1;
  });
}

/** A closed terminal gives an empty answer each time. */
const mostAnswers = 3;

/** Retries after an answer that is wrong, or that the forge refuses. */
async function answered<T>(screen: Screen, asking: () => Promise<T>): Promise<T> {
  for (let left = mostAnswers; ; left -= 1) {
    try {
      return await asking();
    } catch (error) {
      const isWrong = error instanceof WrongUse || (error instanceof Failure && error.fields.some(isAnswer));
      if (!isWrong) throw error;
      if (left === 1) throw new WrongUse(`${error.message} Nothing was created.`);
      screen.hint(error.message);
    }
  }
}

const isAnswer = (field: string): boolean => field === 'token' || field === 'url';
