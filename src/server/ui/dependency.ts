import { ApiError } from '../../shared/errors.ts';
import type { DependencyUses, OwnDependency } from '../../shared/records/dependency.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { dependencyForm, dependencyParts } from './dependency-form.ts';
import { html, type Html } from './html.ts';
import { pageForm, recordForm } from './forms.ts';
import { notice } from './layout.ts';
import { logPart } from './log-viewer.ts';
import { page, upload, type PageDefinition, type PageVisit } from './pages.ts';
import { fact, section } from './parts.ts';
import { backLink, deletionButton, deletionPage } from './resource-pages.ts';
import type { PageRoute } from './site.ts';
import { isUnderWay, stateBadge } from './states.ts';

const of = '/dependencies/:dependency_id';

/** The uses of a dependency, which only its owner sees. */
async function usesOf({ api }: PageVisit): Promise<DependencyUses | undefined> {
  try {
    return await api.get(`${of}/uses`);
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return undefined;
    throw error;
  }
}

const definition: PageDefinition = {
  path: '/ui/dependencies/:dependency_id',
  async show(visit) {
    const dependency = await visit.api.get(of);
    const uses = await usesOf(visit);
    const { id_str: id, name, marketplace_state: state } = dependency;
    return {
      title: name,
      state,
      live: [`dependency:${id}`],
      main: uses ? await ownMain(visit, dependency, uses) : sharedMain(dependency),
    };
  },
  actions: {
    save: { route: `PUT ${of}`, done: 'saved' },
    compile: {
      route: `POST ${of}/compile`,
      done: 'compiling',
    },
    share: {
      route: `POST ${of}/share`,
      done: 'shared',
      refusals: { resource_temporary_unavailable: 'It cannot be shared before it is compiled.' },
    },
    unshare: { route: `POST ${of}/unshare`, done: 'unshared' },
  },
};

async function ownMain(visit: PageVisit, dependency: OwnDependency, uses: DependencyUses): Promise<Html> {
  const { id_str: id, name, marketplace_state: state, archive_file_size: size } = dependency;
  const form = recordForm(visit, 'save', dependencyForm, dependency);
  return html`${backLink('/ui/dependencies', 'All dependencies')}
    <div class="title">
      <h1>${name}</h1>
      <div class="row">
        <div id="dependency-actions" class="row" data-live>${await actions(visit, dependency)}</div>
        ${deletionButton(`${visit.path}/delete`)}
      </div>
    </div>
    <div id="dependency-facts" data-live>
      ${dependency.waiting_reason !== undefined && notice('bad', `It cannot start: ${dependency.waiting_reason}.`)}
      <dl class="facts">
        ${fact('State', stateBadge(state))} ${fact('Source', size === null ? 'none yet' : formatBytes(size))}
        ${fact('Number', html`<code>${id}</code>`)}
      </dl>
    </div>
    <div class="beside">
      <div>
        ${size !== null && (await logPart(visit, of, { address: `/dependencies/${id}`, title: 'Log' }))}
        ${section(
          'described',
          'How it is compiled',
          html`<p class="aside">Changes take effect with the next compile.</p>
            ${form.wrap(await dependencyParts(visit, form, dependency), { button: 'Save', isCard: true, label: 'Dependency' })}`,
        )}
      </div>
      <div>${uploadForm(visit)} ${usesPart(uses)}</div>
    </div>`;
}

async function actions(visit: PageVisit, dependency: OwnDependency): Promise<Html> {
  const { marketplace_state: state, archive_file_size: size } = dependency;
  const button = (action: string, name: string): Html =>
    pageForm(visit, action).wrap(false, { button: name, kind: 'plain' });
  const isShared = state === 'shared' || (isUnderWay(state) && (await isOnMarketplace(visit, dependency)));
  return html`${isShared && button('unshare', 'Stop sharing')} ${state === 'compiled' && button('share', 'Share')}
  ${size !== null && !isUnderWay(state) && button('compile', 'Compile again')}`;
}

/** True for shared dependencies. A dependency stays shared during a new compile. */
async function isOnMarketplace({ api }: PageVisit, { id_str: id, name }: OwnDependency): Promise<boolean> {
  const { items } = await api.list('/marketplace', { query: { name, limit: 1000 } });
  return items.some((one) => one.id_str === id);
}

function uploadForm({ refused, path, formKey, param }: PageVisit): Html {
  const errors = refused?.action === 'upload' ? refused.errors : undefined;
  const mistake = errors && wrongUpload(Object.values(errors).flat());
  return html`<form
    method="post"
    enctype="multipart/form-data"
    action="${path}/upload?form_key=${encodeURIComponent(formKey)}"
    class="card"
    id="upload"
    data-uploads="/ui/data/dependencies/${param('dependency_id')}/uploads"
    data-key="${formKey}"
    data-done="${path}?done=uploaded"
    aria-labelledby="upload-title"
  >
    <h2 id="upload-title">Source</h2>
    <div class="field">
      <label for="archive">Archive</label>
      <p class="hint" id="archive-hint">A tar (plain, gzip, bzip2, xz or zstd) or zip file. It is compiled next.</p>
      <input
        type="file"
        id="archive"
        name="archive"
        required
        aria-describedby="archive-hint${mistake && ' archive-mistake'}"
        ${mistake && html`aria-invalid="true"`}
      />
      <p
        class="mistake"
        id="archive-mistake"
        role="alert"
        data-empty="${wrongUpload(['is_blank'])}"
        data-wrong="${wrongUpload(['invalid_format'])}"
        data-later="${wrongUpload([])}"
        ${!mistake && html`hidden`}
      >
        ${mistake}
      </p>
    </div>
    <div id="upload-progress" hidden>
      <progress aria-label="Upload" max="1" value="0"></progress>
      <p class="aside" id="upload-told"></p>
    </div>
    <button class="main">Upload source</button>
  </form>`;
}

function wrongUpload(codes: readonly string[]): string {
  if (codes.includes('is_blank')) return 'Choose a file that is not empty.';
  if (codes.includes('invalid_format')) return 'This file is neither a tar nor a zip archive.';
  return 'It cannot be stored now: an earlier upload is still compiling, or the disk is full. Try again later.';
}

function isUsed({ suites, dependencies, elsewhere }: DependencyUses): boolean {
  return suites.length + dependencies.length + elsewhere > 0;
}

function usesPart(uses: DependencyUses): Html {
  const list = isUsed(uses) ? usesList(uses) : html`<p class="aside">Nothing uses it.</p>`;
  return section('uses', 'Used by', list, { isCard: true });
}

function usesList({ suites, dependencies, elsewhere }: DependencyUses): Html {
  return html`<ul class="plain">
    ${suites.map(
      (one) =>
        html`<li>
          Suite <a href="/ui/projects/${one.project_id_str}/settings/suites/${one.id_str}">${one.name}</a> of
          <a href="/ui/projects/${one.project_id_str}">${one.project_name}</a>
        </li>`,
    )}
    ${dependencies.map((one) => html`<li>Dependency <a href="/ui/dependencies/${one.id_str}">${one.name}</a></li>`)}
    ${elsewhere > 0 && html`<li>${elsewhere === 1 ? 'One use' : `${elsewhere} uses`} of other accounts</li>`}
  </ul>`;
}

function sharedMain(dependency: OwnDependency): Html {
  const { name, description, prefix, command, launch_command: launch, id_str: id } = dependency;
  return html`${backLink('/ui/marketplace', 'Marketplace')}
    <h1>${name}</h1>
    ${description !== '' && html`<p class="preline">${description}</p>`}
    <section class="card" aria-label="Dependency">
      <dl>
        <dt>Number</dt>
        <dd><code>${id}</code></dd>
        <dt>Prefix</dt>
        <dd><code>${prefix}</code></dd>
        <dt>Command</dt>
        <dd><pre tabindex="0">${command}</pre></dd>
        ${
          launch !== '' &&
          html`<dt>Launch command</dt>
            <dd><pre tabindex="0">${launch}</pre></dd>`
        }
        ${
          dependency.related_dependencies.length > 0 &&
          html`<dt>Compiled against</dt>
            <dd>${dependency.related_dependencies.map((one) => one.name).join(', ')}</dd>`
        }
      </dl>
    </section>
    <p class="aside">A suite that uses it keeps the current archive until a user of its project updates it.</p>`;
}

const deletion = deletionPage({
  frame: page,
  path: '/ui/dependencies/:dependency_id/delete',
  route: `DELETE ${of}`,
  async read({ api }: PageVisit) {
    const { name } = await api.get(of);
    return { name, uses: await api.get(`${of}/uses`) };
  },
  question: ({ name }) => `Delete ${name}?`,
  goes: ({ name, uses }) =>
    html`<p>
        <strong>${name}</strong> is deleted with its source, its archive and its log. If it is shared, it can no longer
        be added.
      </p>
      ${
        isUsed(uses) &&
        html`<p>As long as something uses it, it cannot be deleted:</p>
          ${usesList(uses)}`
      }`,
  back: () => '/ui/dependencies',
  keep: (visit) => `/ui/dependencies/${visit.param('dependency_id')}`,
  refusals: { resource_temporary_unavailable: 'It is in use. Take it off everything that uses it first.' },
});

export const routes: PageRoute[] = [
  ...page(definition),
  upload(definition, {
    name: 'upload',
    route: `POST ${of}/archive`,
    done: 'uploaded',
  }),
  ...deletion,
];
