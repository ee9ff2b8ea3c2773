import type { Suite } from '../records/suite.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { most } from '../shared/bounds.ts';
import { counted } from './parts.ts';
import { variantsOf } from '../shared/matrix.ts';

export function runGroups(form: PageForm, suite?: Suite): Html {
  const matrix = form.shownList('matrix', suite?.matrix ?? []);
  const seconds = Number(form.shown('timeout', String(suite?.timeout ?? 0)));
  const retries = form.shown('retries', String(suite?.retries ?? 0));
  const mayFail = form.shown('allow_failure', String(suite?.allow_failure ?? false)) === 'true';
  const limits = [
    `Timeout: ${seconds > 0 ? `${seconds} s` : 'the server’s'}`,
    `retries: ${retries === '0' || retries === '' ? 'none' : retries}`,
    ...(mayFail ? ['may fail'] : []),
  ];
  return html`${form.group(
    ['matrix'],
    `Matrix: ${matrix.length === 0 ? 'none' : counted(variantsOf(matrix).length, 'variant')}`,
    form.lines('matrix', 'Matrix', {
      value: suite?.matrix.join('\n'),
      isCode: true,
      rows: Math.max(2, matrix.length),
      placeholder: 'NODE=20,22,24',
      hint: html`One variable in each line, with its values: <code>NODE=20,22,24</code>. There is one build for every
        combination, with these values in its environment.`,
      wrong: `Each line is a different variable and its values, such as NODE=20,22; values have no blanks in them and are
      not repeated. There are at most ${most.variants} combinations.`,
    }),
  )}
  ${form.group(
    ['timeout', 'allow_failure', 'retries'],
    limits.join(', '),
    html`${form.text('timeout', 'Time limit in seconds', {
      type: 'number',
      value: String(suite?.timeout ?? 0),
      hint: 'A build that takes longer is ended. 0 stands for the limit of the server, which none can exceed.',
      wrong: 'This is no whole number of seconds, or more than the server allows.',
    })}
    ${form.check('allow_failure', 'May fail', {
      checked: suite?.allow_failure ?? false,
      hint: 'A build of it that fails says so, and its commit passes all the same.',
    })}
    ${form.text('retries', 'Retries', {
      type: 'number',
      value: String(suite?.retries ?? 0),
      hint: 'How often a build that fails is tried again by itself, up to 3 times. One that passes then is called flaky.',
      wrong: 'This is no number from 0 to 3.',
    })}`,
  )}`;
}
