import type { SuiteRuleRow } from '../db/schema.ts';
import { fitsOperator } from '../../shared/domain/rule-expressions.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { ruleFields, ruleRecord } from '../../shared/records/suite.ts';
import { withIdString } from './common.ts';
import { byQuery, projectRecords } from './record-routes.ts';
import { inSuite, suites } from './suites.ts';

function view(rule: SuiteRuleRow) {
  return { ...withIdString('id', rule.id), ...valuesIn(ruleFields, rule) };
}

const rules = projectRecords({
  path: '/projects/:project_id/suites/:suite_id/rules',
  name: 'rule',
  auditName: 'suite_rule',
  access: 'developer',
  reads: 'viewer',
  scope: 'suites',
  fields: ruleFields,
  answer: ruleRecord,
  inside: suites.load,
  rows: ({ db, suite }) => byQuery(db.selectFrom('suite_rules').selectAll().where('suite_id', '=', suite.id)),
  view,
  /** The rule's operator determines which values are valid: not every text is a regular expression. */
  async verify(_, sent, rule) {
    const { operator, value } = { ...rule, ...sent };
    if (operator === undefined || value === undefined || fitsOperator(operator, value)) return {};
    return { value: ['invalid_format'] };
  },
  subject: (rule) => ({ ...rule, name: rule.subject }),
  details: inSuite,
});

export const routes = [
  rules.list('List the rules of a suite; it runs on a commit if all of them match'),
  rules.create('Add a rule to a suite', {
    creates: 'suite_rules',
    async handle({ db, suite, ids, input }) {
      const rule = { id: ids.next(), suite_id: suite.id, ...input };
      await db.insertInto('suite_rules').values(rule).execute();
      return view(rule);
    },
  }),
  rules.change('Change a rule', {
    async handle({ db, rule, input }) {
      if (Object.keys(input).length > 0) {
        await db.updateTable('suite_rules').set(input).where('id', '=', rule.id).execute();
      }
      return view({ ...rule, ...input });
    },
  }),
  rules.remove('Remove a rule', {
    handle: ({ db, rule }) => db.deleteFrom('suite_rules').where('id', '=', rule.id).execute(),
  }),
];
