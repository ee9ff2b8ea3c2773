import { isSameRepository } from '../../shared/domain/git-address.ts';
import { identifier } from '../../shared/records/fields.ts';
import type { Forge } from '../../shared/records/forge.ts';
import type { Project } from '../../shared/records/project.ts';
import { forgeName, mendButton } from './forges.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { fact, section } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { stateBadge } from './states.ts';

export async function connectionPart(visit: ProjectVisit): Promise<Html | false> {
  const { project } = visit;
  const { forge_state: state, forge_state_reason: reason, forge_repository: repository, owned } = project;
  const forges = owned ? await visit.api.get('/forges') : [];
  if (state === 'none') return forges.length > 0 && connectPart(visit, forges);
  const forge = forges.find(({ id_str: one }) => one === project.forge_id_str);
  return section(
    'forge',
    'Forge',
    html`<dl class="facts">
        ${forge && fact('Forge', html`<a href="/ui/account/forges/${forge.id_str}">${forgeName(forge)}</a>`)}
        ${fact('Repository there', html`<code>${repository}</code>`)}
        ${fact('State', html`<span id="forge-state">${stateBadge(state)} ${reason}</span>`)}
      </dl>
      ${await sharedWith(visit)}
      <p class="aside">
        The connection has made the key, the hook and the statuses of this project there. Once a day it is checked that
        key and hook are in place.
      </p>
      ${forge && mendButton(visit, { forge, describedBy: 'forge-state', isInPlace: state === 'connected' && reason === '' })}`,
    { isCard: true },
  );
}

/**
 * Statuses have the names of suites, so two projects on one repository overwrite each other's statuses. Their accounts
 * and connections do not matter. Projects that the reader may not see are not listed.
 */
async function sharedWith({ api, project }: ProjectVisit): Promise<Html | false> {
  if (!project.owned) return false;
  const { forge_id_str: forge, forge_repository: repository } = project;
  const isSame = (one: Project): boolean =>
    one.id_str !== project.id_str &&
    one.forge_state !== 'none' &&
    ((one.forge_id_str === forge && one.forge_repository === repository) ||
      isSameRepository(one.clone_url, project.clone_url));
  const [other] = (await api.get('/projects')).filter(isSame);
  if (!other) return false;
  const link = html`<a href="/ui/projects/${other.id_str}">${other.name}</a>`;
  return notice(
    'bad',
    html`The project ${link} is connected to this repository too. Where both have a suite of one name, each overwrites
    the statuses of the other. Rename one of the suites, or delete a project.`,
  );
}

const connectForm = fieldTable({ forge_id: identifier() }, { forge_id: { label: 'Forge' } });

/** The repository at the forge is found by the project's address. */
function connectPart(visit: ProjectVisit, forges: readonly Forge[]): Html {
  const form = recordForm(visit, 'connect', connectForm);
  return section(
    'forge',
    'Forge',
    html`<p>
        This project is not connected to a forge. Connected, its key, its hook and its statuses are put there by
        themselves.
      </p>
      ${form.wrap(
        form.field('forge_id', { choices: forges.map((forge) => [forge.id_str, forgeName(forge)] as const) }),
        {
          button: 'Connect',
          kind: 'plain',
          isInline: true,
          label: 'Forge',
        },
      )}`,
    { isCard: true },
  );
}

export function madeByConnection({ project }: ProjectVisit, what: string): Html {
  return html`<p>
    <strong>The connection to the forge of <code>${project.forge_repository}</code> has made this ${what}</strong>, and
    needs it. The button <b>Check and fix</b> in the settings of the project makes it again.
  </p>`;
}
