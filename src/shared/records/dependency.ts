import type { Static } from 'typebox';
import { ApiError } from '../errors.ts';
import { normalHost } from '../domain/image-reference.ts';
import { answersOf, refined, required, text, withDefault } from './fields.ts';
import { command, description, image, name } from './forms.ts';
import {
  boolean,
  dateTime,
  id,
  ownId,
  integer,
  listOf,
  nullable,
  object,
  record,
  stateOf,
  string,
  idWithString,
} from './schema.ts';
import { dependencyStates } from './states.ts';
import { reasonInVain } from './waiting.ts';

/** The sandbox needs these directories. A dependency cannot be at, below or above one of them. */
const sandboxDirectories = new Set(['usr', 'bin', 'sbin', 'etc', 'proc', 'sys', 'dev', 'tmp', 'run', 'build']);
const deeperDirectories = ['/home/build', '/var/run', '/var/tmp'];

function isReserved(path: string): boolean {
  const [top = ''] = path.split('/').filter((part) => part !== '');
  if (top === '' || top.startsWith('lib') || sandboxDirectories.has(top)) return true;
  return deeperDirectories.some((needed) => `${needed}/`.startsWith(`${path}/`) || path.startsWith(`${needed}/`));
}

/** An absolute path in normal form, so that two spellings cannot mean the same directory. */
const prefix = refined(text('path', { pattern: /^\/(?!.*\/\/)[^\0]*$/, description: 'an absolute path' }), (value) => {
  const plain = value.length > 1 && value.endsWith('/') ? value.slice(0, -1) : value;
  if (plain.split('/').some((part) => part === '.' || part === '..')) return undefined;
  if (isReserved(plain)) throw new ApiError('is_reserved');
  return plain;
});

export const dependencyFields = {
  name: required(name),
  description,
  command: required(command),
  prefix: withDefault(prefix, '/srv/dependency'),
  /** Inside the archive. */
  source: text('path', { check: (value) => !value.startsWith('/') && !value.split('/').includes('..') }),
  image,
  launch_command: command,
};
/** Every view of a dependency starts with these fields, in the same order. */
const { launch_command, ...described } = answersOf(dependencyFields);
const state = stateOf(dependencyStates);

/** This response names one field differently, and has `private` for the state. */
export const createdDependencyRecord = record('CreatedDependency', {
  id,
  id_ref: string,
  ...described,
  launch_command,
  marketplace_state: stateOf(['private']),
});
export type CreatedDependency = Static<typeof createdDependencyRecord>;

export const uploadedDependencyRecord = record('UploadedDependency', {
  ...ownId,
  ...described,
  archive_file_size: nullable(id),
  launch_command,
  marketplace_state: state,
});
export type UploadedDependency = Static<typeof uploadedDependencyRecord>;

const fields = {
  ...ownId,
  ...described,
  archive_content_type: nullable(string),
  archive_file_size: nullable(id),
  launch_command,
  related_dependencies: listOf(object({ ...ownId, name: string })),
  marketplace_state: state,
};
export const dependencyRecord = record('Dependency', fields);
export type Dependency = Static<typeof dependencyRecord>;

/** With the reason why no runner can compile it. */
export const ownDependencyRecord = record('OwnDependency', { ...fields, waiting_reason: reasonInVain });
export type OwnDependency = Static<typeof ownDependencyRecord>;

const named = { ...ownId, name: string };
export const dependencyUsesRecord = record('DependencyUses', {
  suites: listOf(object({ ...named, ...idWithString('project_id'), project_name: string })),
  dependencies: listOf(object(named)),
  elsewhere: integer,
});
export type DependencyUses = Static<typeof dependencyUsesRecord>;

export const uploadRecord = record('Upload', {
  ...ownId,
  offset: integer,
  size: integer,
  complete: boolean,
  expires_at: dateTime,
});
export type Upload = Static<typeof uploadRecord>;

/** In one spelling. */
const host = refined(
  text('host', { description: 'a host, with a port if needed: registry.example.org:5000' }),
  (value) => normalHost(value.trim()),
);

/** Without the password. */
export const registryFields = {
  host: required(host),
  // It is sent with the password in one header, separated by a colon.
  username: required(text('name', { pattern: /^[^:]+$/ })),
};
export const registryRecord = record('Registry', { ...ownId, ...answersOf(registryFields) });
export type Registry = Static<typeof registryRecord>;
