import { pastedAddress } from '../../shared/domain/git-address.ts';
import { groupOf, isGroup, type RawGroup } from '../../shared/records/raw.ts';
import { projectFields, type Project } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { html } from './html.ts';

export const newProjectForm = fieldTable(projectFields, {
  name: { label: 'Name' },
  clone_url: {
    label: 'Repository address',
    required: true,
    isCode: true,
    placeholder: 'git@github.com:team/app.git',
    hint: html`What you would give to <code>git clone</code>. One that begins with <code>https://</code> is for a
      repository that anybody may read.`,
    wrong:
      'This is no address of a repository, such as git@github.com:team/app.git, ssh://git@example.org:2222/team/app.git ' +
      'or https://github.com/team/app. A password does not belong into it.',
  },
  description: { label: 'Description', rows: 2 },
});

/** True if anyone may read the repository, so it needs no key. */
export function isOpen({ clone_url: url }: Pick<Project, 'clone_url'>): boolean {
  return url.startsWith('https://');
}

export function withPastedAddress(form: RawGroup): RawGroup {
  const { clone_url: url } = form;
  return typeof url === 'string' ? groupOf({ ...form, clone_url: pastedAddress(url) }) : form;
}

export function withPastedTarget(form: RawGroup): RawGroup {
  const { options } = form;
  return isGroup(options) ? groupOf({ ...form, options: withPastedAddress(options) }) : form;
}
