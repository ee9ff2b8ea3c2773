import { operators, subjects } from '../../shared/domain/rule-operators.ts';
import { ruleFields, type Rule } from '../../shared/records/suite.ts';
import { fieldTable, wordsOf, type Choices } from './controls.ts';
import { html, type Html } from './html.ts';
import { orMissing, section, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { rowActions, resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { Visit } from './site.ts';

const of = '/projects/:project_id/suites/:suite_id/rules';

const subjectWords: Record<(typeof subjects)[number], string> = {
  'commit.message': 'commit message',
  'commit.branches': 'branches of the commit',
  'commit.tags': 'tags of the commit',
  'commit.author_name': 'name of the author',
  'commit.author_email': 'e-mail of the author',
  'commit.committer_email': 'e-mail of the committer',
  'commit.ref': 'SHA of the commit',
  'commit.files': 'changed files',
  'request.event': 'event of the request',
  'request.target_branch': 'target branch of the request',
  'request.from_fork': 'whether the request is from a fork',
};
const subjectChoices: Choices = subjects.map((one) => [one, subjectWords[one]]);

const ruleForm = fieldTable(ruleFields, {
  subject: { label: 'Subject', choices: subjectChoices },
  operator: { label: 'Operator', choices: operators.map((one) => [one, one.replaceAll('_', ' ')]) },
  value: {
    label: 'Value',
    isCode: true,
    wrong: 'This is no regular expression as RE2 takes it, or it is too large.',
  },
});

function ruleText({ subject, operator, value }: Rule): Html {
  return html`${wordsOf(subjectChoices, subject)} ${operator.replaceAll('_', ' ')} <code>${value}</code>`;
}

export function suitePath(visit: Pick<Visit, 'param'>): string {
  return `${settingsPath(visit)}/suites/${visit.param('suite_id')}`;
}

const { newForm, routes } = resource({
  noun: 'rule',
  frame: settingsPage,
  path: '/suites/:suite_id/rules/:rule_id',
  // The API has no route for a single rule.
  read: async ({ api, param }: ProjectVisit) =>
    orMissing((await api.get(of)).find(({ id_str: id }) => id === param('rule_id'))),
  all: 'Back to the suite',
  back: (visit) => `${suitePath(visit)}#rules`,
  form: ruleForm,
  fields: (form) => html`<div class="columns">${form.fields()}</div>`,
  creation: { action: 'add_rule', button: 'Add rule', kind: 'plain' },
  save: { route: `PUT ${of}/:rule_id`, done: (_, visit) => ({ goTo: `${suitePath(visit)}#rules`, notice: 'saved' }) },
  delete: `DELETE ${of}/:rule_id`,
  goes: (rule) =>
    html`<p>
      The rule <strong>${ruleText(rule)}</strong> is deleted. From then on, the suite also runs on commits that it does
      not match.
    </p>`,
});

export { routes };

export async function rulesPart(visit: ProjectVisit): Promise<Html> {
  const rules = await visit.api.get(of);
  const rows = rules.map(
    (rule) =>
      html`<tr>
        <td id="rule-${rule.id_str}">${ruleText(rule)}</td>
        <td class="number">${rowActions(`${visit.path}/rules/${rule.id_str}`, `rule-${rule.id_str}`)}</td>
      </tr>`,
  );
  return section(
    'rules',
    'Rules',
    html`<p class="aside">
        ${
          rules.length === 0
            ? 'The suite runs on every commit. With rules, it runs on those for which all of them hold.'
            : 'The suite runs on commits for which all of these hold.'
        }
      </p>
      ${rules.length > 0 && table('List of rules', ['Rule', 'Actions'], rows)} ${await newForm(visit)}`,
    { isTarget: true },
  );
}
