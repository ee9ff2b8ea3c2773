import { accountRoute, openRoute } from '../api/route.ts';
import { whoamiRecord } from '../../shared/records/installation.ts';
import { string } from '../../shared/records/schema.ts';

export const routes = [
  openRoute({
    method: 'GET',
    path: '/ping',
    access: 'none',
    scope: 'none',
    summary: 'Check that the service answers',
    answer: string,
    handle: async () => 'pong',
  }),
  accountRoute({
    method: 'GET',
    path: '/whoami',
    access: 'authenticated',
    scope: 'any',
    forSomeProjects: true,
    summary: 'Check credentials and see their account',
    answer: whoamiRecord,
    handle: async ({ caller }) => ({ email: caller.email }),
  }),
];
