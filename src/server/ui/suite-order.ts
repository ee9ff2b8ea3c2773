import type { Suite } from '../../shared/records/suite.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';

export function orderGroup(form: PageForm, all: readonly Suite[], suite?: Suite): Html {
  const others = all.filter(({ id }) => id !== suite?.id);
  const needed = form.shownList('needs', suite?.needs.map((need) => need.id_str) ?? []);
  const names = others.filter((other) => needed.includes(other.id_str)).map(({ name }) => name);
  const filesFrom = form.shown('files_from_id', suite?.files_from_id_str ?? '');
  const isSet = (name: 'approval' | 'manual'): boolean => form.shown(name, String(suite?.[name] ?? false)) === 'true';
  const group = form.shown('concurrency_group', suite?.concurrency_group ?? '');
  const summary = [
    `Needs: ${names.length === 0 ? 'none' : names.join(', ')}`,
    ...(filesFrom === '' ? [] : [`files of ${others.find((one) => one.id_str === filesFrom)?.name}`]),
    ...(isSet('approval') ? ['with approval'] : []),
    ...(isSet('manual') ? ['manual'] : []),
    ...(group === '' ? [] : [`group: ${group}`]),
  ];
  return form.group(
    ['needs', 'files_from_id', 'approval', 'approvers', 'manual', 'concurrency_group'],
    summary.join(', '),
    html`${form.hidden('needs[]', '')}
    ${
      others.length > 0 &&
      form.checks(
        'needs',
        'Needs: it begins when these have passed, and is skipped when one does not',
        others.map(({ id_str: id, name }) => [id, name] as const),
        needed,
      )
    }
    ${
      others.length > 0 &&
      form.select(
        'files_from_id',
        'Files from',
        [['', 'the checkout'], ...others.map(({ id_str: id, name }) => [id, name] as const)],
        {
          value: filesFrom,
          hint: 'One of those that it needs: it begins with the workspace and the home as that build left them.',
          wrong: 'It has to be one of those that this suite needs, without a matrix or with the very same one.',
        },
      )
    }
    ${form.check('approval', 'Approval', {
      checked: suite?.approval ?? false,
      hint: 'Each build waits until somebody of the project approves it.',
    })}
    ${form.lines('approvers', 'Approvers', {
      value: suite?.approvers.join('\n'),
      rows: 2,
      hint: 'E-mail addresses of users of the project, one on each line. Nobody of them approves what they requested. Left blank, any user of the project may approve.',
    })}
    ${form.check('manual', 'Manual', {
      checked: suite?.manual ?? false,
      hint: 'It never runs by itself, only when a build is asked for with this suite chosen, or a deploy runs it.',
      wrong: 'A deploy strategy runs it, so it stays manual.',
    })}
    ${form.text('concurrency_group', 'Concurrency group', {
      value: suite?.concurrency_group,
      maxlength: 255,
      hint: 'Builds of the project whose suites have the same group run one at a time, the oldest first.',
    })}`,
  );
}
