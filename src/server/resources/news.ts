import { findUserById, updateUser } from '../auth/users.ts';
import { accountRoute } from '../api/route.ts';
import { described, flag, required } from '../../shared/records/fields.ts';
import { boolean, record } from '../../shared/records/schema.ts';
import { orNotFound } from './common.ts';

const fields = {
  by_email: required(described(flag(), 'whether notifications of projects may send you e-mail')),
};
const newsRecord = record('News', { by_email: boolean });

/** The choice of a user, whatever the notifications of projects say. */
const news = { path: '/account/news', access: 'both', scope: 'user', answer: newsRecord } as const;

export const routes = [
  accountRoute({
    ...news,
    method: 'GET',
    summary: 'Fetch whether you take news by e-mail',
    async handle({ db, caller }) {
      return { by_email: orNotFound(await findUserById(db, caller.id)).news === 1 };
    },
  }),
  accountRoute({
    ...news,
    method: 'PUT',
    summary: 'Change whether you take news by e-mail',
    body: fields,
    audit: 'nothing',
    async handle({ db, caller, input }) {
      const { by_email: takes = false } = input;
      await updateUser(db, caller.email, { news: Number(takes) });
      return { by_email: takes };
    },
  }),
];
