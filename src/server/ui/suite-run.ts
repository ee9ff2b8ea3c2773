import type { Suite } from '../../shared/records/suite.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { most } from '../../shared/domain/bounds.ts';
import { counted } from './parts.ts';
import { variantsOf, type Matrix } from '../../shared/domain/matrix.ts';

export function runGroups(form: PageForm, suite?: Suite): Html {
  const shown = (name: keyof Matrix): string[] => form.shownList(name, suite?.[name] ?? []);
  const lists = {
    matrix: shown('matrix'),
    matrix_include: shown('matrix_include'),
    matrix_exclude: shown('matrix_exclude'),
  };
  // A refused input may have any number of lines.
  const isFit = Object.values(lists).every(({ length }) => length <= most.variants);
  const variants = isFit ? variantsOf(lists).filter((variant) => variant !== '').length : 0;
  const variantLines = (name: keyof typeof lists | 'matrix_allow_failure', label: string, hint: string): Html =>
    form.lines(name, label, {
      value: suite?.[name].join('\n'),
      isCode: true,
      rows: Math.max(2, suite?.[name].length ?? 0),
      placeholder: 'NODE=20 DB=sqlite',
      hint,
      wrong: `Each line names variables with one value each, such as NODE=20 DB=sqlite. There are at least one and at
      most ${most.variants} combinations in the end.`,
    });
  const seconds = Number(form.shown('timeout', String(suite?.timeout ?? 0)));
  const retries = form.shown('retries', String(suite?.retries ?? 0));
  const mayFail = form.shown('allow_failure', String(suite?.allow_failure ?? false)) === 'true';
  const limits = [
    `Timeout: ${seconds > 0 ? `${seconds} s` : 'the server’s'}`,
    `retries: ${retries === '0' || retries === '' ? 'none' : retries}`,
    ...(mayFail ? ['may fail'] : []),
  ];
  return html`${form.group(
    [...Object.keys(lists), 'matrix_allow_failure'],
    `Matrix: ${variants === 0 ? 'none' : counted(variants, 'variant')}`,
    html`${form.lines('matrix', 'Matrix', {
      value: suite?.matrix.join('\n'),
      isCode: true,
      rows: Math.max(2, lists.matrix.length),
      placeholder: 'NODE=20,22,24',
      hint: html`One variable in each line, with its values: <code>NODE=20,22,24</code>. There is one build for every
        combination, with these values in its environment.`,
      wrong: `Each line is a different variable and its values, such as NODE=20,22; values have no blanks in them and are
      not repeated. There are at most ${most.variants} combinations.`,
    })}
    ${variantLines('matrix_exclude', 'Left out', 'Combinations that have everything that one of these lines names.')}
    ${variantLines('matrix_include', 'Built besides', 'Combinations of their own, also with other variables.')}
    ${variantLines('matrix_allow_failure', 'Variants that may fail', 'The commit passes also when these have failed.')}`,
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
