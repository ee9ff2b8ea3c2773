import { projectsSeenBy } from '../auth/projects.ts';
import { deleteUserToken, insertUserToken, tokensTopic, userTokensOf, type UserToken } from '../auth/user-tokens.ts';
import { scopes, type Scope } from '../http/route.ts';
import { tokenDays } from '../../shared/domain/bounds.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { secretTokenRecord, tokenFields, tokenRecord } from '../../shared/records/token.ts';
import { withIdString } from './common.ts';
import { accountRecords, byList } from './record-routes.ts';

/** No token makes tokens: one that was stolen could outlive its removal. */

const day = 24 * 60 * 60 * 1000;

function view({ id, projects, ...token }: UserToken) {
  return {
    ...withIdString('id', id),
    name: token.name,
    scopes: token.scopes,
    project_ids: projects,
    expires_at: timestamp(token.expires_at),
    last_used_at: timestampOrNull(token.last_used_at),
    last_used_from: token.last_used_from,
    created_at: timestamp(token.created_at),
  };
}

const tokens = accountRecords({
  path: '/tokens',
  name: 'token',
  auditName: 'user_token',
  access: 'users',
  scope: 'never',
  fields: tokenFields(Object.keys(scopes) as Scope[]),
  answer: tokenRecord,
  rows: ({ db, caller }) => byList(() => userTokensOf(db, caller.id)),
  view,
  async verify({ db, caller }, { project_ids: projects = [], expires_at: end }) {
    const now = Date.now();
    const isWrong = end !== undefined && (end <= now || end > now + tokenDays.most * day);
    const seen = projectsSeenBy(db, caller).select('p.id');
    const known = projects.length === 0 ? [] : await seen.where('p.id', 'in', projects).execute();
    return {
      ...(isWrong && { expires_at: ['invalid_format'] }),
      ...(known.length < projects.length && { project_ids: ['not_found'] }),
    };
  },
});

export const routes = [
  tokens.list('List the tokens that you made for programs of your own'),
  tokens.create('Make a token, limited to scopes and to projects; only this response has it', {
    creates: 'user_tokens',
    showsSecrets: true,
    answer: secretTokenRecord,
    details: ({ input }) => ({
      scopes: input.scopes,
      project_ids: input.project_ids.map(String),
      ...(input.expires_at !== undefined && { expires_at: timestamp(input.expires_at) }),
    }),
    async handle({ db, database, ids, caller, input }) {
      const { project_ids: projects, expires_at: end = BigInt(Date.now() + tokenDays.usual * day), ...own } = input;
      const { made, token } = await insertUserToken(db, ids, caller.id, { ...own, projects, expires_at: end });
      await database.announce(db, tokensTopic);
      return { ...view(made), token };
    },
  }),
  tokens.remove('Remove a token: it stops working at once', {
    handle: ({ db, token }) => deleteUserToken(db, token.id),
  }),
];
