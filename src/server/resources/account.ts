import { accountRoute } from '../api/route.ts';
import { organisationsOf, ownersAlone } from '../auth/organisations.ts';
import { retireUser } from '../auth/retire.ts';
import { checkPassword } from '../auth/set-password.ts';
import { findUserById } from '../auth/users.ts';
import type { Transaction } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { forgesOf, forgetRetired, retireForge } from '../lifecycle/forges.ts';
import { withdrawOffersTo } from '../lifecycle/transfers.ts';
import { forgetGrantsOf } from '../oauth/allowed.ts';
import { described, text } from '../../shared/records/fields.ts';
import { destroyed, destroyedAnswer, orNotFound } from './common.ts';

function inUse(words: string): ApiError {
  return ApiError.inWords('resource_temporary_unavailable', 'generic', words);
}

/** Projects and dependencies refer to their owner, and builds would lose them. */
export async function refuseWhileInUse(trx: Transaction, owner: bigint): Promise<void> {
  const uses = { projects: 'Hand over or delete the projects first.', dependencies: 'Delete the dependencies first.' };
  for (const table of ['projects', 'dependencies'] as const) {
    const owned = trx.selectFrom(table).select('id').where('owner_id', '=', owner).limit(1);
    if ((await owned.executeTakeFirst()) !== undefined) throw inUse(uses[table]);
  }
}

/** For an account or an organisation that owns no projects. */
export async function dropConnections(trx: Transaction, owner: bigint): Promise<void> {
  for (const { id } of await forgesOf(trx, owner).orderBy('id').execute()) {
    await retireForge(trx, id);
    await forgetRetired(trx, id);
  }
  await trx.deleteFrom('registries').where('owner_id', '=', owner).execute();
}

export const routes = [
  accountRoute({
    method: 'DELETE',
    path: '/account',
    access: 'both',
    scope: 'never',
    summary: 'Delete your account, which must own no projects and must not be the last owner of an organisation',
    body: { password: described(text('password'), 'may be missing only in a session that has just been proven') },
    answer: destroyedAnswer,
    audit: { action: 'user.deleted', subject: ({ caller }) => ({ id: caller.id, name: caller.email }) },
    async ask({ database, ids, caller, input, address }) {
      if (input.password === '' && caller.isProven) return {};
      if (input.password === '') throw new ApiError('is_blank', 'password');
      const person = orNotFound(await findUserById(database.read, caller.id));
      const found = await checkPassword({ db: database, ids }, person, {
        password: input.password,
        address: address ?? '',
      });
      if (found !== undefined)
        throw new ApiError(found.refused === 'wait' ? 'resource_temporary_unavailable' : 'invalid_format', 'password');
      return {};
    },
    async handle({ db, database, caller: { id } }) {
      await database.holdRight(db, 'names', id);
      await refuseWhileInUse(db, id);
      for (const organisation of await organisationsOf(db, id)) await database.holdRight(db, 'room', organisation.id);
      const alone = await ownersAlone(db, id);
      if (alone !== undefined)
        throw inUse(`You are the last owner of ${alone}. Name another one, or delete it, first.`);
      await dropConnections(db, id);
      await forgetGrantsOf(db, id);
      await withdrawOffersTo(db, id);
      await db.deleteFrom('collaborators').where('user_id', '=', id).execute();
      await retireUser(db, id);
      return destroyed;
    },
  }),
];
