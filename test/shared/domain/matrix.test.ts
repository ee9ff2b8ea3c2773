import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/properties.ts';
import {
  amongVariants,
  mostVariantsOf,
  readMatrix,
  readVariant,
  textOfAxis,
  variablesIn,
  variantsOf,
} from '../../../src/shared/domain/matrix.ts';

const of = (matrix: string[], matrix_include: string[] = [], matrix_exclude: string[] = []): string[] =>
  variantsOf({ matrix, matrix_include, matrix_exclude });

test('a matrix has a variant for every combination, in the order given', () => {
  assert.deepEqual(of([]), ['']);
  assert.deepEqual(of(['NODE=20,22', 'DB=a']), ['NODE=20 DB=a', 'NODE=22 DB=a']);
  assert.deepEqual(of(['B=2,1', 'A=x,y']), ['B=2 A=x', 'B=2 A=y', 'B=1 A=x', 'B=1 A=y']);
  assert.deepEqual(variablesIn('NODE=20 FLAGS=-O2=x'), { NODE: '20', FLAGS: '-O2=x' });
  assert.deepEqual(variablesIn(''), {});
});

test('what is excluded is left out, what is included is built besides, and nothing twice', () => {
  const two = ['A=1,2', 'B=x,y'];
  assert.deepEqual(of(two, [], ['A=1 B=y']), ['A=1 B=x', 'A=2 B=x', 'A=2 B=y']);
  assert.deepEqual(of(two, [], ['A=1', 'B=y A=2', 'A=3', 'C=1']), ['A=2 B=x']);
  assert.deepEqual(of(two, [], ['A=1', 'A=2']), []);
  const included = ['A=3 B=x', 'B=x A=1', 'A=1 B=y', 'A=1 B=x C=0', 'A=1', 'B=x A=3'];
  const all = ['A=1 B=x', 'A=2 B=x', 'A=2 B=y', 'A=3 B=x', 'A=1 B=y', 'A=1 B=x C=0', 'A=1'];
  assert.deepEqual(of(two, included, ['A=1 B=y']), all, 'one that is excluded too is built');
  // Without a matrix those that are written out are all.
  assert.deepEqual(of([], ['A=1', 'A=2 B=x']), ['A=1', 'A=2 B=x']);
  assert.deepEqual(of([], [], ['A=1']), ['']);
  assert.equal(mostVariantsOf({ matrix: two, matrix_include: included }), 10);
  assert.equal(mostVariantsOf({ matrix: [], matrix_include: [] }), 0);
  const isNamed = amongVariants(['A=1 B=x', 'C=0']);
  assert.deepEqual(all.filter(isNamed), ['A=1 B=x', 'A=1 B=x C=0']);
  assert.equal(isNamed(''), false);
  assert.equal(amongVariants([])('A=1'), false);
});

test('a line that names a variant has one value for each name', () => {
  for (const line of [
    'A',
    '=1',
    'A=',
    'A=1 A=2',
    'A=1 A=1',
    'A=1,2',
    'A=1\tB=2',
    'A=1\nB=2',
    'A=\u{1b}[31m',
    '1A=1',
    '',
  ])
    assert.equal(readVariant(line), undefined, JSON.stringify(line));
  assert.deepEqual(readVariant('A=1   B==')?.map(textOfAxis), ['A=1', 'B==']);
  assert.ok(readVariant(`A=${'x'.repeat(498)}`));
  assert.equal(readVariant(`A=${'x'.repeat(499)}`), undefined);
});

test('whatever is taken for a matrix comes back as it was, and no two variants are alike', () => {
  const entry = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc
      .tuple(fc.constantFrom('A', 'B', 'C'), fc.array(fc.string({ unit: 'binary', maxLength: 3 }), { maxLength: 3 }))
      .map(([name, values]) => `${name}=${values.join(',')}`),
  );
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 3 }), (entries) => {
      const axes = readMatrix(entries);
      if (!axes) return;
      const stored = axes.map(textOfAxis);
      assert.deepEqual(readMatrix(stored), axes);
      const variants = of(stored);
      assert.equal(
        variants.length,
        axes.reduce((count, { values }) => count * values.length, 1),
      );
      assert.equal(new Set(variants).size, variants.length);
      for (const variant of variants) {
        const variables = variablesIn(variant);
        assert.deepEqual(Object.keys(variables).toSorted(), axes.map(({ name }) => name).toSorted());
        for (const { name, values } of axes) assert.ok(values.includes(variables[name] ?? ''));
      }
    }),
    { numRuns: 2000 },
  );
});
