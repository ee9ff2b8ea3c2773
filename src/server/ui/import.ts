import { ApiError } from '../../shared/errors.ts';
import { importFields, type ImportRecord } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { lines, section } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { backLink } from './resource-pages.ts';
import type { PageRoute } from './site.ts';

/** What another CI's files become. Nothing is made before the user confirms the file that is shown. */

const importForm = fieldTable(importFields, {
  toml: {
    label: 'File',
    isCode: true,
    rows: 24,
    hint: 'You may change it here. Suites, schedules, variables and parameters are made as this field has them.',
    wrong: 'The file has mistakes.',
  },
});

async function importPage(visit: ProjectVisit): Promise<Page> {
  const title = 'Import';
  const above = html`${backLink(`${visit.projectPath}/setup`, 'Set up')}
    <h1>${title}</h1>`;
  try {
    const imported = await visit.api.get('/projects/:project_id/import');
    return { title, main: html`${above} ${foundOf(imported, visit)}` };
  } catch (error) {
    if (!(error instanceof ApiError) || error.detail === undefined) throw error;
    return { title, status: error.status, main: html`${above} ${notice('bad', lines(error.detail))}` };
  }
}

function foundOf(imported: ImportRecord, visit: ProjectVisit): Html {
  const { toml, suites, carried, total, to_set: toSet, mistakes } = imported;
  const form = recordForm(visit, 'make', importForm, { toml });
  return html`<p>
      ${carried} of ${total} carried over: triggers, jobs, steps, services, variables, caches, artifacts and settings.
      Nothing is made yet.
    </p>
    ${leftOut(imported)}
    ${
      toSet.length > 0 &&
      section(
        'to-set',
        'To set',
        html`<ul>
            ${toSet.map((hint) => html`<li>${hint}</li>`)}
          </ul>
          <p>Do that in the <a href="${visit.projectPath}/settings">settings</a>.</p>`,
        { isCard: true },
      )
    }
    ${mistakes.length > 0 && notice('bad', lines(`The file has mistakes:\n${mistakes.join('\n')}`))}
    ${
      suites.length === 0
        ? notice('bad', 'No suite could be made of these files.')
        : html`<div class="card">${form.wrap(form.fields(), { button: 'Import these suites', label: 'Import' })}</div>`
    }`;
}

function leftOut({ left_out: shown, carried, total }: ImportRecord): Html | false {
  if (shown.length === 0) return false;
  const rest = total - carried - shown.length;
  return section(
    'left-out',
    'Left out',
    html`<ul>
        ${shown.map(
          ({ file, line, what, why }) =>
            html`<li><code>${file}${line !== null && `:${line}`}</code> ${what}: ${why}.</li>`,
        )}
      </ul>
      ${rest > 0 && html`<p>And ${rest} more.</p>`}`,
    { isCard: true },
  );
}

export const routes: PageRoute[] = projectPage({
  path: '/setup/import',
  tab: 'commits',
  show: importPage,
  actions: {
    make: {
      route: 'POST /projects/:project_id/import',
      done: (_, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/settings/suites`, notice: 'added' }),
    },
  },
});
