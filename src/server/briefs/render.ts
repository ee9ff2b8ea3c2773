import type { Brief } from '../../shared/records/brief.ts';

export const asJson = (brief: Brief): string => JSON.stringify({ response: brief });

/** A part of a brief: our own words, and the lines with texts of builds and repositories. */
interface Section {
  title: string;
  quoted: string[];
}

/** Quoted lines are indented, so none of them can look like a title. */
export function asText(brief: Brief): string {
  return `${sectionsOf(brief)
    .map(({ title, quoted }) => [title, ...quoted.map((line) => `  ${line}`)].join('\n'))
    .join('\n')}\n`;
}

/** Quoted lines are in a fence that is longer than any in them. */
export function asMarkdown(brief: Brief): string {
  const runs = JSON.stringify(brief).match(/`+/g) ?? [];
  const fence = '`'.repeat(runs.reduce((most, { length }) => Math.max(most, length), 2) + 1);
  return `${sectionsOf(brief)
    .map(({ title, quoted }) => [title, ...(quoted.length > 0 ? [`${fence}text`, ...quoted, fence] : [])].join('\n'))
    .join('\n\n')}\n`;
}

function sectionsOf({ step, tests, lines, changed, seen, reproduce, truncated }: Brief): Section[] {
  const sections: Section[] = [];
  const add = (title: string, quoted: string[]): void => {
    if (quoted.length > 0) sections.push({ title, quoted });
  };
  if (step) add(`Failed step${step.exit_status === null ? '' : `, exit status ${step.exit_status}`}:`, [step.name]);
  add('Failed tests:', tests.map(testLine));
  const hasNew = lines.some(({ new: isNew }) => isNew);
  add(
    hasNew ? 'Lines of the log. No passed run has those with a >:' : 'The end of the log:',
    lines.map(({ number, text, new: isNew }) => `${isNew ? '>' : ' '} ${number} ${text}`.trimEnd()),
  );
  add(
    'Commits since the last build that passed:',
    changed.commits.map(({ ref, message, scm_author_name: by }) =>
      [ref.slice(0, 12), message, by && `(${by})`].filter(Boolean).join(' '),
    ),
  );
  add('Changed files:', changed.files);
  add(
    'Changed inputs:',
    changed.inputs.map(({ kind, name }) => `${kind} ${name}`),
  );
  add('Changed variables:', changed.variables);
  if (seen.count > 0) {
    const times = seen.count === 1 ? 'once' : `${seen.count} times`;
    const title = `It ended like this ${times} before, since ${seen.since ?? ''}${seen.branches.length > 0 ? ', on:' : '.'}`;
    sections.push({ title, quoted: seen.branches });
  }
  add('To reproduce it:', reproduce === '' ? [] : [reproduce]);
  if (truncated) sections.push({ title: 'This is not all: parts were left out.', quoted: [] });
  return sections;
}

function testLine({ name, class: of, suite, file, line, message }: Brief['tests'][number]): string {
  const where = file === '' ? '' : `${file}${line === null ? '' : `:${line}`}`;
  const named = [suite, of, name].filter(Boolean).join(' › ');
  return [where, named].filter(Boolean).join(' ') + (message === '' ? '' : `: ${message}`);
}
