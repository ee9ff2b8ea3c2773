import { readFileSync } from 'node:fs';
import { architecture } from './documents.ts';

/** The variants that run on every processor. Programs of a higher variant crash if the processor lacks its features. */
export const plainVariants: readonly unknown[] = { amd64: [undefined, '', 'v1'], arm64: [undefined, '', 'v8'] }[
  architecture
] ?? [undefined, ''];

/** The features of each x86-64 level, by their Linux names. A level includes the levels before it. */
const levels: readonly [variant: string, features: readonly string[]][] = [
  ['v2', ['cx16', 'lahf_lm', 'popcnt', 'pni', 'sse4_1', 'sse4_2', 'ssse3']],
  ['v3', ['avx', 'avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'abm', 'movbe', 'xsave']],
  ['v4', ['avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl']],
];

/** The supported amd64 variants above the plain one, from /proc/cpuinfo, highest first. */
export function variantsIn(cpuinfo: string): string[] {
  const flags = new Set(/^flags\s*:(.*)$/m.exec(cpuinfo)?.[1]?.trim().split(/\s+/));
  const lacking = levels.findIndex(([, features]) => !features.every((feature) => flags.has(feature)));
  const had = lacking < 0 ? levels : levels.slice(0, lacking);
  return had.map(([variant]) => variant).toReversed();
}

export function variantsHere(): string[] {
  return architecture === 'amd64' ? variantsIn(readFileSync('/proc/cpuinfo', 'latin1')) : [];
}
