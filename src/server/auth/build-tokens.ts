import type { Database, Queries, Transaction } from '../db/open.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';

/** Credentials of builds. Each opens the build's own project while the build runs. Only the hash is stored. */

const tokenForm = /^hrb_[\w-]{43}$/;

export interface BuildToken {
  project: bigint;
  suite: string;
  startsBuilds: boolean;
}

/** An order that is given again has a new token, because its runner did not get the first one. */
export async function issueBuildToken(trx: Transaction, build: bigint, startsBuilds: boolean): Promise<string> {
  const token = randomSecret('hrb');
  const row = { token_hash: hashSecret(token), starts_builds: startsBuilds ? 1 : 0 };
  await trx
    .insertInto('build_tokens')
    .values({ id: build, ...row })
    .onConflict((known) => known.column('id').doUpdateSet(row))
    .execute();
  return token;
}

/** Undefined as soon as the build is over or cancelled, or its runner has lost it. */
export async function findBuildToken(db: Queries, token: string): Promise<BuildToken | undefined> {
  if (!tokenForm.test(token)) return undefined;
  const found = await db
    .selectFrom('build_tokens as t')
    .innerJoin('builds as b', 'b.id', 't.id')
    .innerJoin('jobs as j', 'j.subject_id', 'b.id')
    .select(['b.project_id', 'b.suite_name', 't.starts_builds'])
    .where('t.token_hash', '=', hashSecret(token))
    .where('b.build_state', '=', 'running')
    .where('j.claim', 'is not', null)
    .where('j.cancelled', '=', 0)
    .executeTakeFirst();
  return found && { project: found.project_id, suite: found.suite_name, startsBuilds: found.starts_builds === 1 };
}

export async function forgetBuildTokens(db: Database): Promise<void> {
  await db.transaction((trx) =>
    trx
      .deleteFrom('build_tokens')
      .where('id', 'not in', (of) => of.selectFrom('builds').select('id').where('build_state', '=', 'running'))
      .execute(),
  );
}
