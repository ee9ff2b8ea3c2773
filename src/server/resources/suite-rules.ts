import { projectRoute } from '../api/route.ts';
import type { SuiteRow, SuiteRuleRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { fitsOperator } from '../../shared/domain/rule-expressions.ts';
import { valuesIn, type ValuesOf } from '../../shared/records/fields.ts';
import { ruleFields, ruleRecord } from '../../shared/records/suite.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { inSuite, loadSuite } from './suites.ts';

function view(rule: SuiteRuleRow) {
  return { ...withIdString('id', rule.id), ...valuesIn(ruleFields, rule) };
}

async function loadRule(call: InProject<'suite_id' | 'rule_id'>): Promise<{ suite: SuiteRow; rule: SuiteRuleRow }> {
  const { suite } = await loadSuite(call);
  const query = call.db.selectFrom('suite_rules').selectAll().where('suite_id', '=', suite.id);
  return { suite, rule: orNotFound(await query.where('id', '=', call.params.rule_id).executeTakeFirst()) };
}

/** A rule has no name, so the audit log uses its subject. */
const asSubject = ({ rule }: { rule: SuiteRuleRow }) => ({ ...rule, name: rule.subject });

/** The operator decides: not every text is a regular expression. */
async function checkValue(sent: Partial<ValuesOf<typeof ruleFields>>, present?: SuiteRuleRow): Promise<FieldErrors> {
  const { operator, value } = { ...present, ...sent };
  if (operator === undefined || value === undefined || fitsOperator(operator, value)) return {};
  return { value: ['invalid_format'] };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id/rules',
    access: 'both',
    scope: 'suites',
    summary: 'List the rules of a suite; it runs on a commit when all of them hold',
    answer: listOf(ruleRecord),
    load: loadSuite,
    async handle({ db, suite }) {
      const query = db.selectFrom('suite_rules').selectAll().where('suite_id', '=', suite.id).orderBy('id');
      return (await query.execute()).map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/suites/:suite_id/rules',
    access: 'both',
    scope: 'suites',
    summary: 'Add a rule to a suite',
    body: ruleFields,
    creates: 'suite_rules',
    answer: ruleRecord,
    load: loadSuite,
    verify: (_, values) => checkValue(values),
    audit: { action: 'suite_rule.created', details: inSuite },
    async handle({ db, suite, ids, input }) {
      const rule = { id: ids.next(), suite_id: suite.id, ...input };
      await db.insertInto('suite_rules').values(rule).execute();
      return view(rule);
    },
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/suites/:suite_id/rules/:rule_id',
    access: 'both',
    scope: 'suites',
    summary: 'Change a rule',
    body: ruleFields,
    answer: ruleRecord,
    load: loadRule,
    verify: ({ rule }, values) => checkValue(values, rule),
    audit: { action: 'suite_rule.updated', subject: asSubject, details: inSuite },
    async handle({ db, rule, input }) {
      if (Object.keys(input).length > 0) {
        await db.updateTable('suite_rules').set(input).where('id', '=', rule.id).execute();
      }
      return view({ ...rule, ...input });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/suites/:suite_id/rules/:rule_id',
    access: 'both',
    scope: 'suites',
    summary: 'Remove a rule',
    answer: destroyedAnswer,
    load: loadRule,
    audit: { action: 'suite_rule.deleted', subject: asSubject, details: inSuite },
    async handle({ db, rule }) {
      await db.deleteFrom('suite_rules').where('id', '=', rule.id).execute();
      return destroyed;
    },
  }),
];
