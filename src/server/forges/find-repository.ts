import { ForgeError, type Forge, type ForgeRepository } from './forge.ts';
import { movedTo } from './pages.ts';

/**
 * Finds the repository of a project at its forge. The forge's ID survives a rename or move, while another repository
 * may take the old name. So the ID counts first. If no repository has it, the name counts: an owner who recreates a
 * repository means the new one.
 */
export interface KnownRepository {
  name: string;
  /** Blank if the project is not connected yet: then only the name counts. */
  id: string;
}

export function isCalled({ full_name: called }: ForgeRepository, name: string): boolean {
  return called.toLowerCase() === name.toLowerCase();
}

/** If the ID is known, the repository may have another name by now. */
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

async function withId(forge: Forge, id: string, newName: string): Promise<ForgeRepository | undefined> {
  if (!forge.repositoryWithId && newName === '') return undefined;
  const asked = forge.repositoryWithId ? forge.repositoryWithId(id) : forge.repository(newName);
  const found = await asked.catch(refusalOf);
  return found instanceof ForgeError || found.id !== id ? undefined : found;
}

/** Refusals of this one repository. Other errors are thrown. */
function refusalOf(error: unknown): ForgeError {
  if (error instanceof ForgeError && ['not_found', 'moved', 'forbidden'].includes(error.kind)) return error;
  throw error;
}

function explained({ kind, message, newName }: ForgeError, { name, id }: KnownRepository): ForgeError {
  if (kind === 'forbidden') return new ForgeError(kind, `${ended(message)} ${accessFirst}`);
  if (kind === 'moved')
    return new ForgeError(
      kind,
      newName === ''
        ? `${message} The token cannot see its new address. ${accessFirst}`
        : `${message} If that is the repository of this project, enter its address in the settings, and connect it again.`,
      { newName },
    );
  const gone = `The forge has no repository ${name}, or hides it from this token. ${ended(message)}`;
  if (id === '') return new ForgeError(kind, gone);
  return new ForgeError(kind, `${gone} ${accessFirst} If it was deleted, change the address or delete the project.`);
}

const accessFirst = 'Give the token access to it or replace the token, then repair the connection.';

const ended = (message: string): string => (/[.!?]$/.test(message) ? message : `${message}.`);

/** Why keys and hooks cannot be added. Blank if they can. */
export function unusable({ archived, may_administer: mayAdminister }: ForgeRepository, isConnected: boolean): string {
  const then = isConnected ? 'then repair the connection' : 'then try again';
  if (archived) return `The repository is archived, so nothing can be added to it. Unarchive it at the forge, ${then}.`;
  if (mayAdminister) return '';
  return (
    'The token may not administer the repository: only administrators can add keys and hooks. ' +
    `Give its owner that right at the forge or replace the token, ${then}.`
  );
}

/** A connected project keeps the old name until its owner repairs the connection. */
export function renamedInWords({ full_name: name }: ForgeRepository): string {
  return `The repository is now called ${name} at the forge. Repair the connection to update the project’s name and address.`;
}
