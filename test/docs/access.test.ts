import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isRole, roles } from '../../src/server/http/route.ts';
import { routes } from '../../src/server/resources/index.ts';

const marks = ['collaborator', 'viewer', 'developer', 'maintainer', 'owner'] as const;

/** The table of docs/access.md. If it fails, the message has the lines that belong there. */
test('the page of access has the table of all routes and roles', () => {
  const lines = routes.map(({ method, path, access, inOrganisation }) => {
    const asked = inOrganisation ?? access;
    const least = isRole(asked) ? roles.indexOf(asked) : -1;
    const cells = marks.map((mark) => {
      const rank = roles.indexOf(mark === 'collaborator' ? 'developer' : mark);
      const isOutside = mark === 'collaborator' && !path.startsWith('/projects/:');
      return least < 0 || isOutside || rank < least ? '' : 'yes';
    });
    const call = `${method} ${path.replaceAll(/:\w+/g, 'ID')}`;
    return `| \`${call}\` | ${[isRole(access) && access !== 'public' ? '' : access, ...cells].join(' | ')} |`;
  });
  const page = readFileSync(new URL('../../docs/access.md', import.meta.url), 'utf8');
  const table = page.split('\n').filter((line) => line.startsWith('| `'));
  const plain = (some: readonly string[]): string => some.map((line) => line.replaceAll(/ +/g, ' ')).join('\n');
  assert.equal(plain(table), plain(lines));
});
