import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { Rows } from '../../../src/server/ui/browser/log-rows.ts';

/** The rows as a list: headings as `h0`, lines as numbers. */
function listed(
  total: number,
  headings: number[],
  closed: Set<number>,
  groups: [number, number][],
): (string | number)[] {
  const placeOf = (step: number): number => Math.min(headings[step] ?? Infinity, total + 1);
  const isHidden = (line: number): boolean =>
    groups.some(([head, last]) => head < line && line <= last) ||
    [...closed].some((step) => placeOf(step) <= line && (step + 1 >= headings.length || line < placeOf(step + 1)));
  const rows: (string | number)[] = [];
  for (let line = 1; line <= total + 1; line += 1) {
    for (const step of headings.keys()) if (placeOf(step) === line) rows.push(`h${step}`);
    if (line <= total && !isHidden(line)) rows.push(line);
  }
  return rows;
}

const logs = fc.integer({ min: 0, max: 60 }).chain((total) => {
  const line = fc.integer({ min: 1, max: 70 });
  return fc.record({
    total: fc.constant(total),
    headings: fc.array(fc.oneof({ weight: 9, arbitrary: line }, fc.constant(Infinity)), { maxLength: 6 }),
    closed: fc.uniqueArray(fc.nat({ max: 5 })),
    groups: fc.uniqueArray(fc.tuple(line, fc.nat({ max: 20 })), { maxLength: 6, selector: ([head]) => head }),
  });
});

test('the rows of a log are its visible lines and the headings of steps, whatever is folded', () => {
  fc.assert(
    fc.property(logs, ({ total, headings: any, closed: some, groups: lengths }) => {
      const headings = any.toSorted((a, b) => (a === b ? 0 : a - b));
      const closed = new Set(some.filter((step) => step < headings.length));
      const groups = lengths.map(([head, length]): [number, number] => [head, head + length]);
      const rows = new Rows();
      rows.headings = headings;
      for (const step of closed) rows.close(step);
      rows.foldAll(groups.flat());
      rows.total = total;
      const list = listed(total, headings, closed, groups);
      assert.equal(rows.count, list.length);
      for (const [row, shown] of list.entries()) {
        if (typeof shown === 'number') {
          assert.equal(rows.rowOf(shown), row);
          assert.equal(rows.lineAt(row), shown);
          assert.equal(rows.isHidden(shown), false);
        } else {
          const step = Number(shown.slice(1));
          assert.equal(rows.rowOfHeading(step), row);
          assert.ok(rows.headingsAt(rows.lineAt(row)).includes(step));
        }
      }
      const visible = new Set(list);
      for (let line = 1; line <= total; line += 1)
        assert.equal(rows.isHidden(line), !visible.has(line), `line ${line}`);
      assert.equal(rows.visibleIn(1, total), list.filter((one) => typeof one === 'number').length);
      if (total > 0) {
        rows.reveal(total);
        assert.equal(rows.isHidden(total), false);
      }
    }),
  );
});
