import { catalog } from './catalog.ts';
import { common, usageOf } from './command.ts';
import { flagText } from './help.ts';

/** The manual page, made of the same list as the help. */
export function manual(version: string): string {
  const lines = [
    `.TH HEADRACE 1 "" "headrace ${escaped(version)}"`,
    '.SH NAME',
    'headrace \\- build, follow and deploy on a Headrace server',
    '.SH SYNOPSIS',
    '.B headrace',
    '.I COMMAND',
    '[\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]',
    '.SH COMMANDS',
    ...catalog.flatMap((command) => [
      '.TP',
      `.B ${escaped(usageOf(command))}`,
      `${escaped(command.about)}.`,
      ...(command.details === undefined ? [] : ['.br', escaped(command.details)]),
      ...command.flags.flatMap((flag) => ['.RS', '.TP', `.B ${escaped(flagText(flag))}`, escaped(flag.about), '.RE']),
    ]),
    '.SH FLAGS OF EVERY COMMAND',
    ...common.flatMap((flag) => ['.TP', `.B ${escaped(flagText(flag))}`, escaped(flag.about)]),
    '.SH ENVIRONMENT',
    ...variables.flatMap(([name, about]) => ['.TP', `.B ${name}`, escaped(about)]),
    '.SH EXIT STATUS',
    ...statuses.flatMap(([status, about]) => ['.TP', `.B ${status}`, escaped(about)]),
    '.SH EXAMPLES',
    ...catalog.flatMap(({ examples }) =>
      examples.flatMap(([line, means]) => ['.TP', `.B ${escaped(line)}`, escaped(means === '' ? '' : `${means}.`)]),
    ),
  ];
  return `${lines.filter((line) => line !== '').join('\n')}\n`;
}

const variables: [string, string][] = [
  ['HEADRACE_URL', 'the address of the server'],
  ['HEADRACE_TOKEN', 'a token for it'],
  ['HEADRACE_CA_FILE', 'the certificates that the server’s is checked against'],
  ['HEADRACE_PROJECT', 'the project, by its name or identifier'],
  ['NO_COLOR', 'no colours, if it is set'],
  ['XDG_CONFIG_HOME', 'where servers.json is kept, in the folder headrace'],
];

const statuses: [string, string][] = [
  ['0', 'passed, or done'],
  ['1', 'failed'],
  ['2', 'wrong use'],
  ['3', 'could not be run, or the server cannot be reached or refuses the credentials'],
  ['4', 'cancelled'],
];

/** Nothing in a text is a command of roff. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('’', '\\(cq').replace(/^[.']/, '\\&$&');
}
