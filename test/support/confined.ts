import { join } from 'node:path';

/**
 * What begins a command that runs as in a container with its engine's usual capabilities and filter: namespaces and mounts are
 * refused. Root only.
 */
export const confined = ['perl', join(import.meta.dirname, 'confined.pl'), process.arch];

/** Like root of such a container whose filter allows namespaces: without the capabilities, but with nothing refused. */
export const unprivilegedRoot = [
  'setpriv',
  '--bounding-set=-sys_admin,-net_admin,-sys_ptrace,-sys_module,-sys_rawio,-sys_resource',
  '--inh-caps=-all',
  '--',
];
