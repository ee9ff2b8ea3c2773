import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { readDocument } from '../../../src/shared/documents/document.ts';
import { planFor, planningWith, type Planning } from '../../../src/server/resources/config-plan.ts';
import { readProject } from '../../../src/server/resources/config-present.ts';
import { longestTurn, processorTime } from '../../support/event-loop.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const project = { name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' };

describe('planning what a large document changes', () => {
  const suites = (count: number, name: string) =>
    Array.from({ length: count }, (_, at) => ({
      id: BigInt(at),
      name: `${name} ${at}`,
      command: 'make',
      needs: [],
      files_from: [],
      files_from_name: '',
      services: [],
    }));
  /** A project with these suites, and nothing else. */
  const planning = (present: object[]): Planning =>
    planningWith({
      db: undefined as never,
      within: async (route) => {
        if (route === 'GET /projects/:project_id') return project;
        return route === 'GET /projects/:project_id/suites' ? present : [];
      },
    });

  test('does not compare all with all [promise: untrusted-input]', async () => {
    const wanted = suites(200, 'another').map(({ name, command }) => ({ name, command }));
    const document = JSON.stringify({ ...project, suites: wanted });
    const began = processorTime();
    const read = readDocument(document);
    const reading = planning(suites(2000, 'suite'));
    const steps = planFor(reading, await readProject(reading, 1n), read);
    const taken = processorTime() - began;
    assert.deepEqual(
      ['delete', 'create'].map((action) => steps.filter((step) => step.action === action).length),
      [2000, 200],
    );
    assert.ok(taken < 3000, `${taken}`);
  });

  test('does not repeat a very long name with each mistake in its entry', () => {
    const rules = Array.from({ length: 100 }, () => ({ wrong: 1 }));
    const document = JSON.stringify({ ...project, suites: [{ name: 'n'.repeat(100_000), command: 'make', rules }] });
    assert.throws(
      () => readDocument(document),
      (error: { fields: object }) => JSON.stringify(error.fields).length < 100_000,
    );
  });
});

describeServiceOnOne('applying a large document', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('lets others be answered meanwhile [promise: account-turns]', async () => {
    const { id } = await alice.createProject(project);
    const rules = Array.from({ length: 15 }, (_, at) => ({
      subject: 'commit.message',
      operator: 'contains',
      value: `word ${at}`,
    }));
    const suites = Array.from({ length: 30 }, (_, at) => ({ name: `suite ${at}`, command: 'make', rules }));
    const form = { document: JSON.stringify({ ...project, suites }) };
    const applying = longestTurn(() => alice.put(`/projects/${id}/config`, form));
    const over = new AbortController();
    void applying.finally(() => over.abort());
    let answered = 0;
    for (; !over.signal.aborted; answered += 1) await service.api.get('/ping');
    const { result, longestMs } = await applying;
    assert.equal((result.record.changes as unknown[]).length, 30);
    assert.ok(answered > 5, `${answered}`);
    assert.ok(longestMs < 300, `${longestMs}`);
  });
});
