import { isSameRepository, scpLikeForm } from '../domain/git-address.ts';
import type { ErrorCode } from '../errors.ts';

/** The two addresses of a repository: the one that is fetched, and its form `user@host:path`. One of them is written. */
export interface Addresses {
  repository_url: string;
  clone_url: string;
}

type Written = Partial<Addresses>;

/** Both, of what was written; nothing where neither was. `clone_url` says more, so it counts where both were. */
export function addressesOf({ repository_url: repository = '', clone_url: clone = '' }: Written): Written {
  if (clone !== '') return { repository_url: scpLikeForm(clone), clone_url: clone };
  return repository === '' ? {} : { repository_url: repository, clone_url: repository };
}

/** What is wrong with them: one is needed, and two must be of one repository. Undefined: not sent, or wrong in itself. */
export function wrongAddresses(
  { repository_url: repository, clone_url: clone }: Written,
  { isNew }: { isNew: boolean },
): Partial<Record<keyof Addresses, ErrorCode[]>> {
  if (repository === '' && (clone === '' || (clone === undefined && !isNew))) return { repository_url: ['is_blank'] };
  if (clone === '' && repository === undefined && !isNew) return { clone_url: ['is_blank'] };
  const areTwo = repository && clone && !isSameRepository(repository, clone);
  return areTwo ? { clone_url: ['invalid_format'] } : {};
}
