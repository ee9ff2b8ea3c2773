import { readFileSync } from 'node:fs';
import { architecture } from './documents.ts';

/**
 * Variants of an architecture, as images name them. A plain `amd64` is for every processor, and so are `v1` and, for
 * `arm64`, `v8`. Programs of a higher variant end with an illegal instruction where the processor lacks it.
 */
export const plainVariants: readonly unknown[] = { amd64: [undefined, '', 'v1'], arm64: [undefined, '', 'v8'] }[
  architecture
] ?? [undefined, ''];

/** The features of each level of x86-64, by the names of Linux. A level includes the ones before it. */
const levels: readonly [variant: string, features: readonly string[]][] = [
  ['v2', ['cx16', 'lahf_lm', 'popcnt', 'pni', 'sse4_1', 'sse4_2', 'ssse3']],
  ['v3', ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe', 'xsave']],
  ['v4', ['avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl']],
];

/** The variants of amd64 that a processor has beside the plain one, by /proc/cpuinfo, highest first. */
export function variantsIn(cpuinfo: string): string[] {
  const flags = new Set(/^flags\s*:(.*)$/m.exec(cpuinfo)?.[1]?.trim().split(/\s+/));
  const lacking = levels.findIndex(([, features]) => !features.every((feature) => flags.has(feature)));
  const had = lacking < 0 ? levels : levels.slice(0, lacking);
  return had.map(([variant]) => variant).toReversed();
}

/** The variants that this machine has beside the plain one, highest first. */
export function variantsHere(): string[] {
  return architecture === 'amd64' ? variantsIn(readFileSync('/proc/cpuinfo', 'latin1')) : [];
}
