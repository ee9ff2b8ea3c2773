import type { ValuesOf } from './fields.ts';
import { described, required, text } from './fields.ts';
import { branch, configFile } from './forms.ts';
import { recordList } from './record-lists.ts';
import { string } from './schema.ts';

/** What a project's file takes from files of other projects. */
const includeFields = {
  repository: required(text('repositoryUrl', { description: 'the name or address of another project of the account' })),
  ref: required(described(branch, 'a full SHA, or a branch')),
  path: required(configFile),
};
export type Include = ValuesOf<typeof includeFields>;

export const include = recordList(
  'includesOfFile',
  includeFields,
  'files of other projects, whose templates and defaults the suites may take',
);

/** The SHA is blank until the file was fetched. */
export interface FetchedInclude extends Include {
  sha: string;
}

export const fetchedIncludeFields = { repository: string, ref: string, path: string, sha: string };

export const isPinned = ({ ref }: Include): boolean => /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(ref);
