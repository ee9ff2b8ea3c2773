import { html, type Html } from './html.ts';
import type { PersonVisit } from './site.ts';

export const deletionPath = '/ui/account/delete';

interface Section {
  path: string;
  name: string;
  /** Not for collaborators, who have none. */
  isUsers?: boolean;
}

const sections: readonly Section[] = [
  { path: '/ui/account', name: 'Account' },
  { path: '/ui/applications', name: 'API key and applications' },
  { path: '/ui/account/tokens', name: 'Tokens', isUsers: true },
  { path: '/ui/account/registries', name: 'Registries', isUsers: true },
];

export function accountNavigation({ person }: Pick<PersonVisit, 'person'>, current: string): Html {
  const shown = sections.filter(({ isUsers }) => !isUsers || person.kind === 'user');
  return html`<nav aria-label="Account" class="tabs sections">
    ${shown.map(
      ({ path, name }) => html`<a href="${path}" ${path === current && html`aria-current="true"`}>${name}</a>`,
    )}
  </nav>`;
}
