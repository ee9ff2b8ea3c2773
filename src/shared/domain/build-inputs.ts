/** The kinds of what a build stands on, in the order in which they are shown. */
export const inputKinds = [
  'tree',
  'command',
  'image',
  'dependency',
  'service',
  'files',
  'variable',
  'variant',
  'limit',
  'network',
  'architecture',
  'packages',
  'setting',
  'request',
] as const;
export type InputKind = (typeof inputKinds)[number];

/** Only the runner knows these. */
export const runnerInputKinds = ['tree', 'image', 'variable', 'network', 'architecture', 'packages'] as const;

export interface BuildInput {
  kind: InputKind;
  name: string;
  digest: string;
}
