import type { IncomingHttpHeaders } from 'node:http';
import type { Answered } from './api.ts';
import { ForgeError } from './forge.ts';

const mostPages = 10;

/** RFC 8288, and GitLab's own header. */
export function nextIn(headers: IncomingHttpHeaders): boolean {
  const { link, 'x-next-page': next } = headers;
  return /rel="?next"?/.test(String(link ?? '')) || /^\d+$/.test(String(next ?? ''));
}

export async function pagesOf<T>(page: (number: number) => Promise<Answered<T[]>>): Promise<T[]> {
  const all: T[] = [];
  for (let number = 1; number <= mostPages; number += 1) {
    const { value, headers } = await page(number);
    all.push(...value);
    // Gitea has no links for the pages of some lists, only a total.
    const isPart = Number(headers['x-total-count'] ?? 0) > all.length;
    if (value.length === 0 || !(nextIn(headers) || isPart)) break;
  }
  return all;
}

/**
 * Selects the repositories of a page that the token may administer. Some forges list these separately, in the same
 * order. So each is on the same page of that second list or on an earlier one.
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

/** Throws `moved` after a rename or move. The redirect's address gives the new name, if it is below the same API. */
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

export function movedTo(newName: string): ForgeError {
  const where = newName === '' ? 'elsewhere' : `to ${newName}`;
  return new ForgeError('moved', `The repository was renamed or moved ${where}.`, { newName });
}
