import type { InputKind } from '../../shared/domain/build-inputs.ts';
import { ApiError } from '../../shared/errors.ts';
import { isId } from '../../shared/lib/ids.ts';
import type { BuildDetails } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { counted, filterForm, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

const words: Record<InputKind, string> = {
  tree: 'Files of the commit',
  command: 'Command',
  image: 'Image',
  dependency: 'Dependency',
  service: 'Service',
  files: 'Files of another suite',
  variable: 'Variable',
  variant: 'Variant',
  limit: 'Limit',
  network: 'Network',
  architecture: 'Processor',
  packages: 'Programs of the machine',
  setting: 'Setting of the suite',
  request: 'Build request',
};

const digits = 12;
const short = (digest: string | null): Html =>
  digest === null ? html`<span class="aside">none</span>` : html`<code>${digest.slice(0, digits)}</code>`;

/** What the build stood on, and how that differs from another build if one was named. */
export async function inputsPart(visit: ProjectVisit, { id_str: id }: BuildDetails): Promise<Html> {
  const route = '/projects/:project_id/builds/:build_id/inputs';
  const { inputs } = await visit.api.get(route);
  const compare = visit.queryText('compare').trim();
  if (inputs.length === 0)
    return html`<section id="inputs" aria-labelledby="inputs-head" data-live>
      <h2 id="inputs-head">Inputs</h2>
      <p class="aside">They are recorded when a runner begins the build.</p>
    </section>`;
  return html`<section id="inputs" aria-labelledby="inputs-head" data-live>
    <h2 id="inputs-head">Inputs</h2>
    <p class="aside">
      What this build stood on, as digests: equal digests mean equal content. Enter the number of another build to see
      how the two differ.
    </p>
    ${filterForm(`${visit.projectPath}/builds/${id}/details`, {
      name: 'compare',
      label: 'Compare with',
      value: compare,
      most: 20,
      button: 'Compare',
      landmark: 'Compare inputs with those of another build',
    })}
    ${compare !== '' && (await differences(visit, compare))}
    <details ${compare === '' && html`open`}>
      <summary>${counted(inputs.length, 'input')}</summary>
      ${table(
        'Inputs',
        ['Input', 'Name', 'Digest'],
        inputs.map(
          ({ kind, name, digest }) =>
            html`<tr>
              <td>${words[kind]}</td>
              <td><code>${name}</code></td>
              <td class="nowrap">${short(digest)}</td>
            </tr>`,
        ),
      )}
    </details>
  </section>`;
}

async function differences({ api }: ProjectVisit, compare: string): Promise<Html> {
  const missing = notice('bad', `This project has no build with the number ${compare}.`);
  if (!isId(compare)) return missing;
  const route = '/projects/:project_id/builds/:build_id/inputs';
  const compared = await api.get(route, { query: { compare } }).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  });
  if (!compared) return missing;
  const { differences: found = [] } = compared;
  if (found.length === 0) return notice('good', `Both builds stood on the same inputs.`);
  return html`<h3>${counted(found.length, 'difference')} to build ${compare}</h3>
    ${table(
      'Differences',
      ['Input', 'Name', `Build ${compare}`, 'This build'],
      found.map(
        ({ kind, name, before, after }) =>
          html`<tr>
            <td>${words[kind]}</td>
            <td><code>${name}</code></td>
            <td class="nowrap">${short(before)}</td>
            <td class="nowrap">${short(after)}</td>
          </tr>`,
      ),
    )}`;
}
