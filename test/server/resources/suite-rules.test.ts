import assert from 'node:assert/strict';
import { test } from 'node:test';
import { longest as bounds } from '../../../src/shared/domain/bounds.ts';
import { assertCreated, assertDestroyed, assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';

describeService('rules of a suite', (service) => {
  test('are created, listed oldest first, changed and deleted', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const [suite, other] = [await alice.createSuite(project), await alice.createSuite(project)];
    const path = `/projects/${project.id}/suites/${suite.id}/rules`;
    const form = { subject: 'commit.branches', operator: 'contains', value: ' release/' };
    const answer = await alice.post(path, form);
    assertCreated(answer, 'id id_str subject operator value');
    const { id, id_str, ...rest } = answer.record;
    assert.deepEqual(rest, form);
    const second = (await alice.post(path, form)).record;
    assert.deepEqual((await alice.get(path)).list, [answer.record, second]);
    const changed = await alice.put(`${path}/${id}`, { operator: 'equals' });
    assert.deepEqual(changed.record, { ...answer.record, operator: 'equals' });
    assert.deepEqual((await alice.get(path)).list, [changed.record, second]);
    const elsewhere = `/projects/${project.id}/suites/${other.id}/rules/${id_str}`;
    assertNotFound(await alice.put(elsewhere, { value: 'x' }));
    assertNotFound(await alice.delete(elsewhere));
    assertDestroyed(await alice.delete(`${path}/${id}`));
    assertNotFound(await alice.delete(`${path}/${id}`));
    assert.deepEqual((await alice.get(path)).list, [second]);
    for (const operator of ['does_not_match', 'all_match', 'not_all_match']) {
      const value = '^docs/|\\.md$';
      assert.equal((await alice.post(path, { ...form, operator, value })).record['operator'], operator);
      assertWrongFields(await alice.post(path, { ...form, operator, value: '(' }), { value: 'invalid_format' });
    }
  });

  test('report everything that is wrong', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites/${(await alice.createSuite(project)).id}/rules`;
    assertWrongFields(await alice.post(path), { subject: 'is_blank', operator: 'is_blank', value: 'is_blank' });
    assertWrongFields(await alice.post(path, { subject: 'commit.weather', operator: 'likes', value: '\0' }), {
      subject: 'invalid_format',
      operator: 'invalid_format',
      value: 'invalid_format',
    });
    // A character is one, also where a JavaScript text has two units for it.
    const longest = { subject: 'commit.message', operator: 'contains', value: '\u{1f600}'.repeat(bounds.ruleValue) };
    assert.equal((await alice.post(path, longest)).status, 201);
    assertWrongFields(await alice.post(path, { ...longest, value: `${longest.value}x` }), { value: 'invalid_format' });
    const pattern = { subject: 'commit.message', operator: 'matches', value: '(unclosed' };
    assertWrongFields(await alice.post(path, pattern), { value: 'invalid_format' });
    const rule = (await alice.post(path, { ...pattern, operator: 'contains' })).record;
    assertWrongFields(await alice.put(`${path}/${rule.id}`, { operator: 'matches' }), { value: 'invalid_format' });
  });
});
