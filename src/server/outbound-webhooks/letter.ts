import { escapeXml } from '../../shared/lib/xml.ts';
import type { Letter } from '../mail/mailer.ts';
import type { FailedSuite, Message } from './message.ts';

/** The subject has no words of the repository, so no commit can write a headline of its own. */
export function letterOf(message: Message, to: string, origin: string): Letter {
  const { headline, project, place, sha } = message;
  const commit = sha === '' ? '' : ` (${sha.slice(0, 8)})`;
  return {
    to,
    subject: `${headline}: ${project}, ${place}${commit}`,
    text: textOf(message, origin),
    html: htmlOf(message, origin),
    headers: {
      'List-Unsubscribe': `<${origin}/ui/account>`,
      'Auto-Submitted': 'auto-generated',
    },
  };
}

export function pingLetter(to: string, project: string, origin: string): Letter {
  const line = `Headrace sends news of ${project} to this address.`;
  return {
    to,
    subject: `News of ${project}`,
    text: `${line}\n\n${origin}/ui/account`,
    html: `<p>${escapeXml(line)}</p><p><a href="${escapeXml(origin)}/ui/account">Your account</a></p>`,
    headers: { 'List-Unsubscribe': `<${origin}/ui/account>`, 'Auto-Submitted': 'auto-generated' },
  };
}

function factsOf({ sha, subject, author, requestedBy, changedFiles, place }: Message): [string, string][] {
  const facts: [string, string][] = [
    ['Branch', place],
    ['Commit', sha === '' ? '' : `${sha.slice(0, 12)} ${subject}`],
    ['Author', author],
    ['Requested by', requestedBy],
    ['Changed', changedFiles.join(', ')],
  ];
  return facts.filter(([, value]) => value !== '');
}

function linesOf({ step, tests }: FailedSuite): string[] {
  return [
    ...(step === '' ? [] : [`Failed step: ${step}`]),
    ...(tests.length === 0 ? [] : ['Failed tests:', ...tests.map((test) => `- ${test}`)]),
  ];
}

const why = (origin: string): string =>
  `You get this because a notification of the project names you. Turn it off: ${origin}/ui/account`;

function textOf(message: Message, origin: string): string {
  const suites = message.failed.flatMap((suite) => [
    '',
    `${suite.name}: ${suite.sentence}`,
    ...linesOf(suite),
    ...suite.lines.map((line) => `    ${line}`),
    suite.address,
  ]);
  return [
    `${message.headline}: ${message.project}`,
    `${message.sentence}.`,
    ...factsOf(message).map(([name, value]) => `${name}: ${value}`),
    '',
    message.address,
    ...suites,
    '',
    '-- ',
    why(origin),
  ].join('\n');
}

function htmlOf(message: Message, origin: string): string {
  const suites = message.failed.map(
    (suite) => `<h2>${escapeXml(suite.name)}</h2>
<p>${escapeXml(suite.sentence)} <a href="${escapeXml(suite.address)}">Log</a></p>
${linesOf(suite)
  .map((line) => `<p>${escapeXml(line)}</p>`)
  .join('\n')}
<pre>${suite.lines.map((line) => escapeXml(line)).join('\n')}</pre>`,
  );
  return `<!doctype html>
<html lang="en"><body>
<h1>${escapeXml(`${message.headline}: ${message.project}`)}</h1>
<p>${escapeXml(message.sentence)}. <a href="${escapeXml(message.address)}">Open the build request</a></p>
<table>${factsOf(message)
    .map(([name, value]) => `<tr><th align="left">${name}</th><td>${escapeXml(value)}</td></tr>`)
    .join('')}</table>
${suites.join('\n')}
<hr><p>${escapeXml(why(origin))}</p>
</body></html>`;
}
