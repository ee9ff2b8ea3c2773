import assert from 'node:assert/strict';
import { test } from 'node:test';
import { architecture } from '../../src/runner/images/documents.ts';
import { readManifest } from '../../src/runner/images/manifest.ts';
import { variantsIn } from '../../src/runner/images/processor.ts';

const mediaType = 'application/vnd.oci.image.manifest.v1+json';
const digestOf = (letter: string): string => `sha256:${letter.repeat(64)}`;

/** An index with manifests for these variants of this machine's architecture, called a, b, c and so on. */
const indexOf = (...variants: (string | undefined)[]): Buffer =>
  Buffer.from(
    JSON.stringify({
      manifests: variants.map((variant, at) => ({
        mediaType,
        digest: digestOf('abcdef'[at] ?? ''),
        size: 1,
        platform: { os: 'linux', architecture, ...(variant !== undefined && { variant }) },
      })),
    }),
  );

const chosen = (has: string[], ...variants: (string | undefined)[]): unknown =>
  readManifest(indexOf(...variants), () => has);

test('of an index the plain image counts, or the highest variant that this machine has', () => {
  const all = ['v4', 'v3', 'v2'];
  assert.deepEqual(chosen(all, 'v4', undefined), { other: digestOf('b') });
  assert.deepEqual(chosen([], 'v3', 'v2', ''), { other: digestOf('c') });
  assert.deepEqual(chosen(['v3', 'v2'], 'v2', 'v4', 'v3'), { other: digestOf('c') });
  assert.deepEqual(chosen(['v2'], 'v4', 'v2'), { other: digestOf('b') });
  assert.throws(() => chosen(['v2'], 'v4', 'v3'), {
    reason: 'image_wrong_architecture',
    message: new RegExp(`it has linux/${architecture}/v4 and linux/${architecture}/v3, and this runner is`),
  });
  assert.throws(() => chosen(all), /it has nothing, and this runner is/);
});

test('the variants of a processor are read from its features', () => {
  const v2 = 'fpu cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3';
  const v3 = `${v2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave`;
  const v4 = `${v3} avx512f avx512bw avx512cd avx512dq avx512vl`;
  const processors = { 'fpu sse2': [], [v2]: ['v2'], [v3]: ['v3', 'v2'], [v4]: ['v4', 'v3', 'v2'] };
  for (const [flags, variants] of Object.entries(processors))
    assert.deepEqual(variantsIn(`processor\t: 0\nflags\t\t: ${flags}\nbugs\t\t: none\n`), variants);
  assert.deepEqual(variantsIn(`flags : ${v4.replace('avx2 ', '')}\n`), ['v2']);
  assert.deepEqual(variantsIn(''), []);
});
