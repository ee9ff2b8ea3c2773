import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { temporaryFolder } from '../support/databases.ts';
import { promtool } from '../support/promtool.ts';
import { samplesIn } from '../support/samples.ts';
import { describeServiceOnOne } from '../support/service.ts';

const folder = join(import.meta.dirname, '../../deploy/monitoring');
const docs = join(import.meta.dirname, '../../docs/monitoring.md');

interface Panel {
  title: string;
  targets?: { expr: string }[];
}

const panels = (JSON.parse(readFileSync(join(folder, 'dashboard.json'), 'utf8')) as { panels: Panel[] }).panels;
const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
const rules = readFileSync(join(folder, 'alerts.yml'), 'utf8');

/** The metrics that a text names, without what a histogram adds to its name. */
function namedIn(text: string): string[] {
  const names = text.match(/\b(headrace|process)_[a-z_]+\b(?=[{[)\s]|$)/gm) ?? [];
  return [...new Set(names.map((name) => name.replace(/_(bucket|sum|count)$/, '')))];
}

test('the alert rules are what Prometheus can read, and ring when they should', async () => {
  await promtool(folder, ['check', 'rules', 'alerts.yml']);
  await promtool(folder, ['test', 'rules', 'alerts.test.yml']);
  await promtool(folder, ['check', 'config', '--syntax-only', 'prometheus.yml']);
  const tested = readFileSync(join(folder, 'alerts.test.yml'), 'utf8');
  for (const [, name] of rules.matchAll(/alert: (\w+)/g))
    assert.match(
      tested,
      new RegExp(`alertname: ${name}\\n\\s+eval_time: \\d+m\\n\\s+exp_alerts`),
      `${name} was never seen to ring`,
    );
});

test('the queries of the dashboard are what Prometheus can read', async () => {
  const file = join(temporaryFolder(), 'queries.yml');
  const written = queries.map(({ expr }, at) => ({
    record: `query:${at}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }));
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: written }] })); // JSON is YAML
  await promtool(folder, ['check', 'rules', file]);
  assert.ok(queries.length > 20);
});

describeServiceOnOne('a running server', (service) => {
  let text: string;
  before(async () => {
    text = (await service.api.get('/metrics')).text;
  });

  test('serves what Prometheus can read', async () => {
    await promtool(folder, ['check', 'metrics'], text);
  });

  test('serves every metric that the dashboard and the rules name, and the docs explain each', () => {
    const types = new Map(
      Array.from(text.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name = '', type = '']) => [name, type]),
    );
    const asked = [...namedIn(rules), ...queries.flatMap(({ expr }) => namedIn(expr))];
    assert.ok(asked.length > 30);
    assert.deepEqual(
      asked.filter((name) => !types.has(name)),
      [],
    );
    const explained = readFileSync(docs, 'utf8');
    assert.deepEqual(
      [...types.keys()].filter((name) => !/^(process|nodejs)_/.test(name) && !explained.includes(`\`${name}\``)),
      [],
    );
    const named = explained.match(/\b(headrace|process)_[a-z_]+[a-z]\b/g) ?? [];
    assert.deepEqual(
      named.filter((name) => !types.has(name)),
      [],
    );
  });

  test('serves each value of a label that they look for', () => {
    const served = [...samplesIn(text).keys()].join('\n');
    const looked = [rules, ...queries.map(({ expr }) => expr)].join('\n');
    for (const [, label, values = ''] of looked.matchAll(
      /\b(state|kind|outcome|operation|reason|percentile)=~?"([^"]+)"/g,
    ))
      for (const value of values.split('|')) assert.ok(served.includes(`${label}="${value}"`), `${label}="${value}"`);
  });
});
