import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readMatrix, textOfAxis, variablesIn, variantsOf } from '../../src/shared/matrix.ts';

test('a matrix has a variant for every combination, in the order given', () => {
  assert.deepEqual(variantsOf([]), ['']);
  assert.deepEqual(variantsOf(['NODE=20,22', 'DB=a']), ['NODE=20 DB=a', 'NODE=22 DB=a']);
  assert.deepEqual(variantsOf(['B=2,1', 'A=x,y']), ['B=2 A=x', 'B=2 A=y', 'B=1 A=x', 'B=1 A=y']);
  assert.deepEqual(variablesIn('NODE=20 FLAGS=-O2=x'), { NODE: '20', FLAGS: '-O2=x' });
  assert.deepEqual(variablesIn(''), {});
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
      const variants = variantsOf(stored);
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
