import { isSameRepository, scpLikeForm } from '../domain/git-address.ts';
import type { ErrorCode } from '../errors.ts';

/** A user writes one, and the other is derived. */
export interface Addresses {
  repository_url: string;
  clone_url: string;
}

type Written = Partial<Addresses>;

/** `clone_url` has more information, so it wins if both were sent. */
export function addressesOf({ repository_url: repository = '', clone_url: clone = '' }: Written): Written {
  if (clone !== '') return { repository_url: scpLikeForm(clone), clone_url: clone };
  return repository === '' ? {} : { repository_url: repository, clone_url: repository };
}

/** One is required, and two must name one repository. An undefined value was not sent, or is already refused. */
export function wrongAddresses(
  { repository_url: repository, clone_url: clone }: Written,
  { isNew }: { isNew: boolean },
): Partial<Record<keyof Addresses, ErrorCode[]>> {
  if (repository === '' && (clone === '' || (clone === undefined && !isNew))) return { repository_url: ['is_blank'] };
  if (clone === '' && repository === undefined && !isNew) return { clone_url: ['is_blank'] };
  const areTwo = repository && clone && !isSameRepository(repository, clone);
  return areTwo ? { clone_url: ['invalid_format'] } : {};
}
