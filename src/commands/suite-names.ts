import type { Build } from '../client/operations.ts';

/** What a build is called: its suite, and of a suite with a matrix its variant. */
export function namer(suites: readonly { id_str: string; name: string }[]): (build: Build) => string {
  const names = new Map(suites.map(({ id_str: id, name }) => [id, name]));
  return ({ suite_id_str: id, variant }) => {
    const name = names.get(id) ?? 'deleted suite';
    return variant === '' ? name : `${name} (${variant})`;
  };
}
