import type { Access, Link, Repository } from '../shared/protocol/index.ts';
import type { RepositoryWithKey } from './checkouts.ts';
import type { Task } from './job-runner.ts';
import { untilAnswered } from './retry.ts';

/** The credentials are requested only if the commit is missing here. They are never stored. */
export function withAccess(
  link: Pick<Link, 'access'>,
  repository: Repository,
  { id: claim, signal }: Pick<Task, 'id' | 'signal'>,
): RepositoryWithKey {
  const access = async (): Promise<Access> => {
    const given = await untilAnswered(signal, () => link.access({ claim }, signal));
    if (given === undefined) throw new Error('the claim expired');
    return given;
  };
  return {
    ...repository,
    privateKey: async () => (await access()).privateKey,
    credential: async () => (await access()).credential,
  };
}
