import type { IncomingHttpHeaders } from 'node:http';
import type { Answered } from './api.ts';
import { ForgeError } from './forge.ts';

/** Pages of lists, and things that have moved: what forges with the same habits share. */

/** So many pages of keys or hooks of one repository are looked at. */
const mostPages = 10;

/** Whether there is a page after this one (RFC 8288, and GitLab's own header). */
export function nextIn(headers: IncomingHttpHeaders): boolean {
  const { link, 'x-next-page': next } = headers;
  return /rel="?next"?/.test(String(link ?? '')) || /^\d+$/.test(String(next ?? ''));
}

/** All of a list. */
export async function pagesOf<T>(page: (number: number) => Promise<Answered<T[]>>): Promise<T[]> {
  const all: T[] = [];
  for (let number = 1; number <= mostPages; number += 1) {
    const { value, headers } = await page(number);
    all.push(...value);
    // Gitea has no links to the pages of some lists, and only tells how many there are.
    const isPart = Number(headers['x-total-count'] ?? 0) > all.length;
    if (value.length === 0 || !(nextIn(headers) || isPart)) break;
  }
  return all;
}

/**
 * Which repositories of a page can be administered, where a forge tells that by a second list, of those alone. It has the
 * same order, so what is on a page of the first list is on the same page there or on one before it.
 */
export async function administered(
  names: readonly string[],
  page: number,
  listed: (page: number) => Promise<string[]>,
): Promise<Set<string>> {
  const found = new Set<string>();
  for (let at = page; at > Math.max(0, page - mostPages) && found.size < names.length; at -= 1) {
    const there = await listed(at);
    for (const name of there) if (names.includes(name)) found.add(name);
    const [first] = there;
    if (found.size > 0 && first !== undefined && !names.includes(first)) break;
  }
  return found;
}

/**
 * Asks for a repository. One that was renamed or moved is not taken in its place: the error tells its new name, for which
 * the forge is asked where its answer leads, if that is below the same API.
 */
export async function unlessMoved<T>(
  asked: (path: string) => Promise<T>,
  path: string,
  nameOf: (answer: T) => string,
): Promise<T> {
  try {
    return await asked(path);
  } catch (error) {
    if (!(error instanceof ForgeError) || error.kind !== 'moved') throw error;
    const there = error.location === '' ? undefined : await asked(error.location).catch(() => undefined);
    const newName = there === undefined ? '' : nameOf(there);
    throw movedTo(newName);
  }
}

/** Blank where the new name is not known. */
export function movedTo(newName: string): ForgeError {
  const where = newName === '' ? 'elsewhere' : `to ${newName}`;
  return new ForgeError('moved', `The repository was renamed or moved ${where}.`, { newName });
}
