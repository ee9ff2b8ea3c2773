import { ForgeError, type Forge, type ForgeRepository } from './forge.ts';
import { movedTo } from './pages.ts';

/**
 * Finds the repository of a project at its forge. What the forge itself knows it by stays when it is renamed or moved, while
 * another one may have its old name by then. So it is the one with that ID, or else the one that has the name now: who deletes
 * a repository and makes it anew means that one. Where there is none, words tell what happened and what to do.
 */
export interface KnownRepository {
  name: string;
  /** Blank where the project is not connected yet: then nothing but the name counts. */
  id: string;
}

export function isCalled({ full_name: called }: ForgeRepository, name: string): boolean {
  return called.toLowerCase() === name.toLowerCase();
}

/** The repository, which may have another name now if its ID is known. */
export async function findRepository(forge: Forge, { name, id }: KnownRepository): Promise<ForgeRepository> {
  const there = await forge.repository(name).catch(refusalOf);
  const isNamed = !(there instanceof ForgeError) && isCalled(there, name);
  if (isNamed && (id === '' || there.id === id)) return there;
  const newName = there instanceof ForgeError ? there.newName : isNamed ? '' : there.full_name;
  const own = id === '' ? undefined : await withId(forge, id, newName);
  if (own) return own;
  if (isNamed) return there;
  const refused = there instanceof ForgeError ? there : movedTo(newName);
  throw id === '' && refused.kind !== 'not_found' ? refused : explained(refused, { name, id });
}

/** Undefined where the forge has none with this ID, or does not show it. */
async function withId(forge: Forge, id: string, newName: string): Promise<ForgeRepository | undefined> {
  if (!forge.repositoryWithId && newName === '') return undefined;
  const asked = forge.repositoryWithId ? forge.repositoryWithId(id) : forge.repository(newName);
  const found = await asked.catch(refusalOf);
  return found instanceof ForgeError || found.id !== id ? undefined : found;
}

/** What the forge answers for this one repository. Whatever else it says is for the caller. */
function refusalOf(error: unknown): ForgeError {
  if (error instanceof ForgeError && ['not_found', 'moved', 'forbidden'].includes(error.kind)) return error;
  throw error;
}

/** With what to do about it, where the project is connected. */
function explained({ kind, message, newName }: ForgeError, { name, id }: KnownRepository): ForgeError {
  if (kind === 'forbidden') return new ForgeError(kind, `${ended(message)} ${accessFirst}`);
  if (kind === 'moved')
    return new ForgeError(
      kind,
      newName === ''
        ? `${message} The token does not see where. ${accessFirst}`
        : `${message} If that is the repository of this project, enter its address in the settings, and connect it again.`,
      { newName },
    );
  const gone = `The forge has no repository ${name}, or does not show it to this token. ${ended(message)}`;
  if (id === '') return new ForgeError(kind, gone);
  return new ForgeError(kind, `${gone} ${accessFirst} If it was deleted, change the address or delete the project.`);
}

const accessFirst = 'Give the token access to it or replace the token, then mend the connection.';

const ended = (message: string): string => (/[.!?]$/.test(message) ? message : `${message}.`);

/** Why nothing can be put at a repository that is there, and what to do about it; blank where it can. */
export function unusable({ archived, may_administer: mayAdminister }: ForgeRepository, isConnected: boolean): string {
  const then = isConnected ? 'then mend the connection' : 'then try again';
  if (archived) return `The repository is archived, so nothing can be added to it. Unarchive it at the forge, ${then}.`;
  if (mayAdminister) return '';
  return (
    'The token may not administer the repository: keys and hooks are added by its administrators. ' +
    `Give its owner that right at the forge or replace the token, ${then}.`
  );
}

/** A connected project goes on under the old name until somebody says that it is to follow. */
export function renamedInWords({ full_name: name }: ForgeRepository): string {
  return `The repository is called ${name} at the forge now. Mend the connection: the project gets its new name and address.`;
}
