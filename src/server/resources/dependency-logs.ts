import type { WithCaller } from '../api/call.ts';
import { accountRoute } from '../api/route.ts';
import { dependencies } from './dependencies.ts';
import { recordFirehose } from './firehoses.ts';
import { followedDependency } from './followed.ts';
import { logRoutes, namedIn, type Logged } from './logs.ts';

export const logged: Logged<'/dependencies/:dependency_id', WithCaller> = {
  route: accountRoute,
  path: '/dependencies/:dependency_id',
  param: 'dependency_id',
  access: 'users',
  inOrganisation: 'viewer',
  scope: 'dependencies',
  name: 'the newest compile',
  load: dependencies.load,
  findLog: async ({ params }) => namedIn(params, 'dependency_id'),
};

export const routes = [
  ...logRoutes(logged),
  recordFirehose(logged, followedDependency, 'a dependency and its compile'),
];
