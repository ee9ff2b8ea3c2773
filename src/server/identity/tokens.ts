import { randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { Transaction } from '../db/open.ts';
import type { BuildRequestRow, BuildRow } from '../db/schema.ts';
import { algorithm, longestTokenMs, type SigningKeys } from './keys.ts';

export interface WantedToken {
  variable: string;
  audience: string;
}

/** The claims of a token in addition to the registered ones. Each is blank if there is none. */
export const buildClaims = [
  'project_id',
  'project',
  'organisation',
  'suite',
  'build_id',
  'request_id',
  'sha',
  'ref',
  'event',
  'deploy_strategy',
  'runner',
] as const;

type BuildClaims = Record<(typeof buildClaims)[number], string>;

type Asking = Pick<BuildRow, 'id' | 'project_id' | 'build_request_id' | 'suite_name'> &
  Pick<BuildRequestRow, 'event' | 'pull_request' | 'fetched_as'> & { sha: string };

export interface TokensFor {
  build: Asking;
  deployStrategy: string;
  /** Undefined for the runner of the server's own machine. */
  runnerId: bigint | undefined;
  startedAt: number;
  /** The build's own limit. */
  timeoutSeconds: number;
}

export interface Identity {
  /** Signs a token for each audience, by variable. */
  issue(trx: Transaction, wanted: readonly WantedToken[], about: TokensFor): Promise<Record<string, string>>;
}

export interface IdentityParts {
  keys: Pick<SigningKeys, 'current'>;
  /** The server's public address: `iss` of the tokens. */
  issuer: () => string;
  now: () => number;
}

export function createIdentity({ keys, issuer, now }: IdentityParts): Identity {
  return {
    async issue(trx, wanted, about) {
      const { kid, key } = await keys.current(trx);
      const claims = await claimsOf(trx, about);
      const lastsMs = Math.min(about.timeoutSeconds * 1000, longestTokenMs);
      const issuedAt = Math.floor(now() / 1000);
      const endsAt = Math.floor((about.startedAt + lastsMs) / 1000);
      const tokens = wanted.map(async ({ variable, audience }) => {
        const token = new SignJWT({ ...claims })
          .setProtectedHeader({ alg: algorithm, kid, typ: 'JWT' })
          .setIssuer(issuer())
          .setSubject(subjectOf(about.build))
          .setAudience(audience)
          .setIssuedAt(issuedAt)
          .setNotBefore(issuedAt)
          .setExpirationTime(endsAt)
          .setJti(randomUUID());
        return [variable, await token.sign(key)] as const;
      });
      return Object.fromEntries(await Promise.all(tokens));
    },
  };
}

/** The code of a pull request was not merged, so its builds never pass as builds of a ref. */
function subjectOf({ project_id: project, pull_request: pull, event, fetched_as: ref, sha }: Asking): string {
  if (pull !== null || event === 'pull_request') return `project:${project}:pull_request`;
  return ref === '' ? `project:${project}:sha:${sha}` : `project:${project}:ref:${ref}`;
}

async function claimsOf(trx: Transaction, { build, deployStrategy, runnerId }: TokensFor): Promise<BuildClaims> {
  const project = await trx
    .selectFrom('projects')
    .leftJoin('organisations', 'organisations.id', 'projects.owner_id')
    .leftJoin('users', 'users.id', 'organisations.id')
    .select(['projects.name', 'users.email as organisation'])
    .where('projects.id', '=', build.project_id)
    .executeTakeFirstOrThrow();
  const runners = trx.selectFrom('runners').select('name');
  const runner = runnerId === undefined ? undefined : await runners.where('id', '=', runnerId).executeTakeFirst();
  return {
    project_id: String(build.project_id),
    project: project.name,
    organisation: project.organisation ?? '',
    suite: build.suite_name,
    build_id: String(build.id),
    request_id: String(build.build_request_id),
    sha: build.sha,
    ref: build.fetched_as,
    event: build.event,
    deploy_strategy: deployStrategy,
    runner: runner?.name ?? '',
  };
}
