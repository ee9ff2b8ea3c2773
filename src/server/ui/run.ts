import type { FieldErrors } from '../../shared/errors.ts';
import { askedFields } from '../../shared/records/build-request.ts';
import { text } from '../../shared/records/fields.ts';
import type { Parameter } from '../../shared/records/parameter.ts';
import { groupOf, isGroup, type RawGroup } from '../../shared/records/raw.ts';
import type { Choices, FieldTable } from './controls.ts';
import { recordForm, type FormVisit } from './forms.ts';
import { html } from './html.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { askedFrom, runForm, suitesPart } from './suite-choice.ts';

/** Asks for the project's parameters, and requests a build with the answers. */

const answerTo = ({ name }: Parameter): `variables[${string}]` => `variables[${name}]`;

/** Variables that no parameter names are typed into a field of their own. */
const others = 'others';

type Names = 'commit_ref' | 'suites' | 'priority' | 'reuse' | typeof others | ReturnType<typeof answerTo>;

function tableFor(parameters: readonly Parameter[]): FieldTable<Names> {
  const { variables, ...fields } = askedFields;
  const answer = text('variableContent', { lines: 'many' });
  const answers = parameters.map((one) => [answerTo(one), answer] as const);
  return {
    fields: { ...fields, [others]: variables, ...Object.fromEntries(answers) },
    texts: {
      commit_ref: runForm.texts.commit_ref,
      suites: runForm.texts.suites,
      [others]: { ...runForm.texts.variables, label: parameters.length > 0 ? 'Other variables' : 'Variables' },
      reuse: { label: 'Reuse results', hint: 'Suites with reuse do not run if a build with the same inputs passed.' },
      priority: { label: 'Priority', wrong: 'This is more than the project allows, or no number from -100 to 100.' },
      ...Object.fromEntries(parameters.map((one) => [answerTo(one), textsOf(one)])),
    },
  };
}

function textsOf({ name, type, description, required, default: value, options }: Parameter) {
  const possible = type === 'boolean' ? yesOrNo : options.map((option) => [option, option] as const);
  const choices: Choices = value === '' ? [['', '–'], ...possible] : possible;
  return {
    label: name,
    ...(description !== '' && { hint: description }),
    ...(possible.length > 0 && { choices }),
    ...(type === 'number' && { wrong: 'This is no decimal number, such as 12 or -0.5.' }),
    required: required && value === '',
  };
}

const yesOrNo: Choices = [
  ['true', 'Yes'],
  ['false', 'No'],
];

/** Mistakes in variables that no parameter names belong to the field in which they were typed. */
function placed({ formKey, path, refused }: FormVisit, parameters: readonly Parameter[]): FormVisit {
  if (!refused) return { formKey, path, refused };
  const known = new Set<string>(parameters.map(answerTo));
  const errors: FieldErrors = Object.fromEntries(
    Object.entries(refused.errors).map(([name, codes]) => [
      known.has(name) ? name : name.replace(/^variables(?=\[|$)/, others),
      codes,
    ]),
  );
  return { formKey, path, refused: { ...refused, errors } };
}

function variablesFrom({ others: typed = '', variables: answers, ...form }: RawGroup): RawGroup {
  const { variables } = askedFrom(groupOf({ variables: typed }));
  const given = isGroup(answers) ? answers : {};
  if (typeof variables === 'string' && variables !== '') return groupOf({ ...form, variables });
  return groupOf({ ...form, variables: groupOf({ ...(isGroup(variables) && variables), ...given }) });
}

async function show(visit: ProjectVisit) {
  const { api, project, projectPath, queryText } = visit;
  await api.admit('POST /projects/:project_id/build_requests');
  const { parameters } = project;
  const [overview, suites] = [
    await api.get('/projects/:project_id/overview'),
    await api.get('/projects/:project_id/suites'),
  ];
  const branch = overview.default_branch || overview.last_check?.default_branch;
  const form = recordForm(placed(visit, parameters), 'run', tableFor(parameters));
  return {
    title: 'Run a build',
    crumbs: [{ text: 'Run' }],
    main: html`<h1>Run a build</h1>
      ${form.wrap(
        html`${form.field('commit_ref', { value: queryText('commit_ref') || branch })}
        ${parameters.map((one) => form.field(answerTo(one), { value: one.default }))}
        ${suitesPart(form, suites, visit.refused !== undefined)} ${form.field(others)}
        ${form.field('priority', { hint: `At most ${project.most_priority}. Higher ones begin first.` })}
        ${form.field('reuse')}`,
        { button: 'Run build', isCard: true, label: 'Run build' },
      )}
      ${
        parameters.length === 0 &&
        project.owned &&
        html`<p class="aside">
          The project asks for nothing else. <a href="${projectPath}/settings/parameters">Parameters</a> make it ask.
        </p>`
      }`,
  };
}

export const routes: PageRoute[] = projectPage({
  path: '/run',
  tab: 'commits',
  show,
  actions: {
    run: {
      route: 'POST /projects/:project_id/build_requests',
      fields: variablesFrom,
      done: ({ id_str: id }, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/requests/${id}` }),
    },
  },
});
