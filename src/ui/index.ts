import type { FastifyInstance } from 'fastify';
import { ApiError } from '../errors.ts';
import { addAssets } from './assets.ts';
import * as account from './account.ts';
import * as applications from './applications.ts';
import * as authorize from './authorize.ts';
import * as build from './build.ts';
import * as commit from './commit.ts';
import * as newProject from './new-project.ts';
import * as password from './password.ts';
import * as project from './project.ts';
import * as registration from './registration.ts';
import * as request from './request.ts';
import * as setup from './setup.ts';
import * as signIn from './sign-in.ts';
import { addSite, type SiteServices } from './site.ts';
import * as dashboard from './dashboard.ts';

/** The pages that people see: rendered here, and complete without scripts. */
export function addPages(server: FastifyInstance, services: SiteServices): void {
  addAssets(server);
  const pages = [dashboard, newProject, setup, project, request, commit, build];
  const own = [signIn, password, account, authorize, applications, registration];
  addSite(
    server,
    [...own, ...pages].flatMap(({ places }) => places),
    services,
  );
  // The root belongs to the API, which has nothing there; a browser was looking for the pages.
  server.get('/', { config: { provenBy: 'none' } }, (request, reply) => {
    if (!/\btext\/html\b/.test(request.headers.accept ?? '')) throw new ApiError('api_does_not_exists');
    return reply.header('vary', 'accept').redirect('/ui/', 302);
  });
}
