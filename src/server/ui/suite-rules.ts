import { operators, subjects } from '../../shared/domain/rule-operators.ts';
import type { Rule } from '../../shared/records/suite.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { orMissing, table } from './parts.ts';
import { deletionButton, deletionPage, type ProjectVisit, recordHead } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute, Visit } from './site.ts';

const subjectLabels: Record<(typeof subjects)[number], string> = {
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

function ruleText({ subject, operator, value }: Rule): Html {
  const subjectLabel = (subjectLabels as Record<string, string>)[subject] ?? subject;
  return html`${subjectLabel} ${operator.replaceAll('_', ' ')} <code>${value}</code>`;
}

function ruleFields(form: PageForm, rule?: Rule): Html {
  const subjectChoices = subjects.map((one) => [one, subjectLabels[one]] as const);
  const operatorChoices = operators.map((one) => [one, one.replaceAll('_', ' ')] as const);
  return html`<div class="columns">
    ${form.select('subject', 'Subject', subjectChoices, { value: rule?.subject })}
    ${form.select('operator', 'Operator', operatorChoices, { value: rule?.operator })}
    ${form.text('value', 'Value', {
      value: rule?.value,
      required: true,
      isCode: true,
      wrong: 'This is no regular expression as RE2 takes it, or it is too large.',
    })}
  </div>`;
}

export async function rulesPart(visit: ProjectVisit): Promise<Html> {
  const rules = await visit.api.get('/projects/:project_id/suites/:suite_id/rules');
  const form = pageForm(visit, 'add_rule');
  return html`<section id="rules" aria-labelledby="rules-title">
    <h2 id="rules-title">Rules</h2>
    <p class="aside">
      ${
        rules.length === 0
          ? 'The suite runs on every commit. With rules, it runs on those for which all of them hold.'
          : 'The suite runs on commits for which all of these hold.'
      }
    </p>
    ${
      rules.length > 0 &&
      table(
        'List of rules',
        ['Rule', 'Actions'],
        rules.map(
          (rule) =>
            html`<tr>
              <td id="rule-${rule.id_str}">${ruleText(rule)}</td>
              <td class="number">
                <div class="actions end">
                  <a href="${visit.path}/rules/${rule.id_str}" aria-describedby="rule-${rule.id_str}">Change</a>
                  ${deletionButton(`${visit.path}/rules/${rule.id_str}/delete`, `rule-${rule.id_str}`)}
                </div>
              </td>
            </tr>`,
        ),
      )
    }
    ${form.wrap(ruleFields(form), { button: 'Add rule', kind: 'plain', isCard: true, label: 'New rule' })}
  </section>`;
}

/** There is no route for a single rule. */
async function findRule({ api, param }: ProjectVisit): Promise<Rule | undefined> {
  const rules = await api.get('/projects/:project_id/suites/:suite_id/rules');
  return rules.find(({ id_str: id }) => id === param('rule_id'));
}

export function suitePath(visit: Pick<Visit, 'param'>): string {
  return `${settingsPath(visit)}/suites/${visit.param('suite_id')}`;
}

const route = '/projects/:project_id/suites/:suite_id/rules/:rule_id';

const change = settingsPage({
  path: '/suites/:suite_id/rules/:rule_id',
  async show(visit) {
    const rule = orMissing(await findRule(visit));
    const form = pageForm(visit, 'save');
    return {
      title: 'Rule',
      main: html`${recordHead(visit, { back: `${suitePath(visit)}#rules`, all: 'Back to the suite', title: 'Rule' })}
      ${form.wrap(ruleFields(form, rule), { button: 'Save', isCard: true, label: 'Rule' })}`,
    };
  },
  actions: {
    save: { route: `PUT ${route}`, done: (_, visit) => ({ goTo: `${suitePath(visit)}#rules`, notice: 'saved' }) },
  },
});

const deletion = deletionPage({
  path: '/suites/:suite_id/rules/:rule_id/delete',
  route: `DELETE ${route}`,
  async what(visit) {
    const rule = orMissing(await findRule(visit));
    return {
      title: 'Delete this rule?',
      goes: html`<p>
        The rule <strong>${ruleText(rule)}</strong> goes. From then on, the suite also runs on commits for which it does
        not hold.
      </p>`,
    };
  },
  back: (visit) => `${suitePath(visit)}#rules`,
});

export const routes: PageRoute[] = [...change, ...deletion];
