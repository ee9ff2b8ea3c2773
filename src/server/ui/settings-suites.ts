import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import type { Suite } from '../../shared/records/suite.ts';
import { html, type Html } from './html.ts';
import { pageForm, type FormVisit, type PageForm } from './forms.ts';
import { imageField } from './registries.ts';
import { counted, empty, subjectOf, table } from './parts.ts';
import { deletionPage, recordHead, type ProjectVisit } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute, Visit } from './site.ts';
import { dependenciesPart } from './suite-dependencies.ts';
import { orderGroup } from './suite-order.ts';
import { runGroups } from './suite-run.ts';
import { servicesGroup } from './suite-services.ts';
import { stepsGroup } from './suite-steps.ts';
import { rulesPart } from './suite-rules.ts';
import { addSuiteVariable, suiteVariables } from './variables.ts';

const rootWords: Record<string, string> = { true: ', as root', false: ', not as root' };

const cacheSaves = [
  ['passed', 'passed builds'],
  ['always', 'passed and failed builds'],
] as const;

interface Around {
  all: readonly Suite[];
  mayBuildImages: boolean;
}

/** Everything but name and command is in groups: most suites need none of it. */
function suiteFields(form: PageForm, { all, mayBuildImages }: Around, suite?: Suite): Html {
  const description = form.shown('description', suite?.description ?? '');
  const tags = form.shownList('tags', suite?.tags ?? []).join(' ');
  const root = form.shown('root', suite?.root === null ? '' : String(suite?.root ?? ''));
  const cache = form.shownList('cache', suite?.cache ?? []);
  const [reports, artifacts] = (['reports', 'artifacts'] as const).map((name) =>
    form.shownList(name, suite?.[name] ?? []),
  );
  return html`${form.text('name', 'Name', { value: suite?.name, required: true, maxlength: 255 })}
  ${form.area('command', 'Command', {
    value: suite?.command,
    isCode: true,
    rows: Math.min(20, Math.max(4, (suite?.command ?? '').split('\n').length)),
    hint: html`Run by <code>sh -e</code> in a fresh copy of the repository: a line that fails ends it. The suite passes
      when it exits with 0.`,
    wrong: 'A suite has a command or steps: leave one of them blank.',
  })}
  ${stepsGroup(form, suite?.steps)} ${servicesGroup(form, suite?.services)}
  ${form.group(
    ['image', 'root', 'builds_images', 'tags'],
    `Image: ${form.shown('image', suite?.image ?? '') || 'none'}${rootWords[root] ?? ''}${tags === '' ? '' : `, tags: ${tags}`}`,
    html`${imageField(form, suite?.image)}
    ${form.select(
      'root',
      'User in the image',
      [
        ['', 'The image’s own'],
        ['true', 'Root'],
        ['false', 'Not root'],
      ],
      {
        value: root,
        hint: 'Root can install packages and change users there, and is nobody on the machine.',
        wrong: 'Without an image there is no root.',
      },
    )}
    ${
      (mayBuildImages || suite?.builds_images) &&
      form.check('builds_images', 'Builds images', {
        checked: suite?.builds_images ?? false,
        hint: html`<code>buildah</code> and <code>podman build</code> work in it, and it has the passwords of the
          owner&rsquo;s registries. It reaches more of the runner&rsquo;s kernel than other builds.`,
        wrong: imageBuildsOff,
      })
    }
    ${form.words('tags', 'Tags', {
      value: suite?.tags.join(' '),
      hint: 'Words with blanks between them. Only runners that have all of these tags run the suite.',
      wrong: 'Tags are words of up to 64 letters, digits and . _ : - that begin with a letter or a digit, at most 16.',
    })}`,
  )}
  ${form.group(
    ['cache', 'cache_save'],
    `Cache: ${cache.length === 0 ? 'none' : counted(cache.length, 'path')}`,
    html`${form.lines('cache', 'Cache', {
      value: suite?.cache.join('\n'),
      rows: rowsFor(cache),
      isCode: true,
      hint: html`Paths, one on each line, in the repository (<code>node_modules</code>) or under
        <code>~</code> (<code>~/.npm</code>). The next build finds there what a passed one left.`,
      wrong:
        'These are not paths to cache: up to 16, without .. and not absolute, none inside another, and not .git, the whole repository or the whole home.',
    })}
    ${form.select('cache_save', 'Save it after', cacheSaves, { value: suite?.cache_save })}`,
  )}
  ${orderGroup(form, all, suite)} ${runGroups(form, suite)}
  ${form.group(
    ['reports', 'artifacts'],
    `Test reports: ${patterns(reports)}, artifacts: ${patterns(artifacts)}`,
    html`${form.lines('reports', 'Test reports', {
      value: suite?.reports.join('\n'),
      rows: rowsFor(reports),
      isCode: true,
      hint: html`Files in JUnit XML, whose tests are shown with the build: one pattern a line, such as
        <code>report.xml</code> or <code>**/target/surefire-reports/*.xml</code>.`,
      wrong: 'Patterns lead down from the workspace: no / at the beginning and no .. in them. At most 50.',
    })}
    ${form.lines('artifacts', 'Artifacts', {
      value: suite?.artifacts.join('\n'),
      rows: rowsFor(artifacts),
      isCode: true,
      hint: html`Files that are kept after each build, whatever its result: one pattern a line, such as
        <code>dist</code>, <code>*.log</code> or <code>coverage/**/*.html</code>.`,
      wrong: 'Patterns lead down from the workspace: no / at the beginning and no .. in them. At most 50.',
    })}`,
  )}
  ${form.group(
    ['description'],
    `Description: ${description.trim() === '' ? 'none' : subjectOf(description)}`,
    form.area('description', 'Description', { value: suite?.description, rows: 2 }),
  )}`;
}

function patterns(list: readonly string[] = []): string {
  return list.length === 0 ? 'none' : counted(list.length, 'pattern');
}

function rowsFor(list: readonly string[] = []): number {
  return Math.min(10, Math.max(2, list.length));
}

const fewSuites = 20;

const list = settingsPage({
  path: '/suites',
  async show(visit) {
    const all = await visit.api.get('/projects/:project_id/suites');
    const filter = visit.queryText('filter').trim();
    const suites = all.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
    return {
      title: 'Suites',
      main: html`<div class="title">
          <h1>Suites</h1>
          ${all.length > fewSuites && html`<a class="button" href="#new">New suite</a>`}
        </div>
        <div class="beside">
          <div>
            ${all.length > fewSuites && filterForm(visit.path, filter)}
            ${table(
              'Suites',
              ['Name', 'Command'],
              suites.map((suite) => row(suite, visit.path)),
              {
                none: empty(
                  'No suites yet',
                  'A suite is a command that every commit is tried with, such as your tests.',
                ),
              },
            )}
            <p id="none-fit" class="aside" ${suites.length > 0 && html`hidden`}>
              ${all.length > 0 && 'No suite has that in its name.'}
            </p>
          </div>
          ${creation(visit, all)}
        </div>`,
    };
  },
  actions: {
    create: {
      route: 'POST /projects/:project_id/suites',
      done: ({ id_str: id }, visit) => ({ goTo: `${visit.path}/${id}`, notice: 'created' }),
    },
  },
});

function filterForm(path: string, filter: string): Html {
  return html`<form method="get" action="${path}" role="search" class="inline">
    <div class="field">
      <label for="filter">Filter</label>
      <input id="filter" name="filter" type="search" value="${filter}" autocomplete="off" data-filter />
    </div>
  </form>`;
}

function row({ id_str: id, name, description, command, steps }: Suite, path: string): Html {
  return html`<tr data-name="${name.toLowerCase()}">
    <td>
      <a href="${path}/${id}">${name}</a>
      ${description !== '' && html`<p class="aside brief">${description}</p>`}
    </td>
    <td>
      ${
        steps.length === 0
          ? html`<code class="brief">${command}</code>`
          : html`<span class="brief"
              >${counted(steps.length, 'step')}: ${steps.map((step) => step.name).join(', ')}</span
            >`
      }
    </td>
  </tr>`;
}

function creation(visit: FormVisit & Pick<Visit, 'imageBuilds'>, all: readonly Suite[]): Html {
  const around = { all, mayBuildImages: visit.imageBuilds };
  const form = pageForm(visit, 'create');
  return html`<section id="new" aria-labelledby="new-title">
    <h2 id="new-title">New suite</h2>
    ${form.wrap(suiteFields(form, around), { button: 'Create suite', isCard: true, label: 'New suite' })}
  </section>`;
}

const one = settingsPage({
  path: '/suites/:suite_id',
  showsSecrets: true,
  async show(visit) {
    const { api } = visit;
    const suite = await api.get('/projects/:project_id/suites/:suite_id');
    const all = await api.get('/projects/:project_id/suites');
    const form = pageForm(visit, 'save');
    return {
      title: suite.name,
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/suites`, all: 'All suites', title: suite.name, isOwners: true })}
      ${form.wrap(suiteFields(form, { all, mayBuildImages: visit.imageBuilds }, suite), { button: 'Save', isCard: true, label: 'Suite' })}
      ${await rulesPart(visit)} ${await suiteVariables(visit)} ${await dependenciesPart(visit)}`,
    };
  },
  actions: {
    save: {
      route: 'PUT /projects/:project_id/suites/:suite_id',
      done: 'saved',
    },
    add_rule: {
      route: 'POST /projects/:project_id/suites/:suite_id/rules',
      done: (_, visit) => ({ goTo: `${visit.path}#rules`, notice: 'added' }),
    },
    add_variable: addSuiteVariable,
    add_dependency: {
      route: 'POST /projects/:project_id/suites/:suite_id/dependencies',
      done: (_, visit) => ({ goTo: `${visit.path}#dependencies`, notice: 'added' }),
    },
    update_dependency: {
      route: 'POST /projects/:project_id/suites/:suite_id/dependencies/:dependency_id/update',
      done: (_, visit) => ({ goTo: `${visit.path}#dependencies`, notice: 'updated' }),
    },
  },
});

async function usesOf(visit: ProjectVisit, { id_str: id }: Suite): Promise<Html | false> {
  const { api } = visit;
  const strategies = (await api.get('/projects/:project_id/deploy_strategies')).filter(
    ({ strategy_type: type }) => type === 'suite',
  );
  const one = '/projects/:project_id/deploy_strategies/:deploy_strategy_id';
  const whole = await Promise.all(
    strategies.map(async (of) => api.get(one, { params: { deploy_strategy_id: of.id_str } })),
  );
  const running = whole.filter(({ options }) => 'suite_id_str' in options && options.suite_id_str === id);
  const needing = (await api.get('/projects/:project_id/suites')).filter(({ needs }) =>
    needs.some((need) => need.id_str === id),
  );
  if (needing.length + running.length === 0) return false;
  const at = settingsPath(visit);
  return html`<p>As long as something uses it, it cannot be deleted:</p>
    <ul class="plain">
      ${needing.map((by) => html`<li>Suite <a href="${at}/suites/${by.id_str}">${by.name}</a> needs it</li>`)}
      ${running.map((by) => html`<li>Deploy strategy <a href="${at}/deploys/${by.id_str}">${by.name}</a> runs it</li>`)}
    </ul>`;
}

const deletion = deletionPage({
  path: '/suites/:suite_id/delete',
  route: 'DELETE /projects/:project_id/suites/:suite_id',
  refusals: { resource_temporary_unavailable: 'It is in use. Take it off everything that uses it first.' },
  async what(visit) {
    const { api } = visit;
    const of = '/projects/:project_id/suites/:suite_id';
    const suite = await api.get(of);
    const rules = await api.get(`${of}/rules`);
    const variables = await api.get(`${of}/environment_variables`);
    return {
      title: `Delete ${suite.name}?`,
      goes: html`<p>
          The suite <strong>${suite.name}</strong> goes, with its command, ${counted(rules.length, 'rule')} and
          ${counted(variables.length, 'variable')}. What it built stays, with its logs.
        </p>
        ${await usesOf(visit, suite)}`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/suites/${visit.param('suite_id')}`,
  next: (visit) => `${settingsPath(visit)}/suites`,
});

export const routes: PageRoute[] = [...list, ...one, ...deletion];
