import { developerProgram } from './catalog.ts';
import { leavesOf, termOf, usageOf } from './program.ts';

export function manual(version: string): string {
  const commands = leavesOf(developerProgram());
  const described = commands.flatMap((command) => [
    ...item(usageOf(command), `${command.summary()}.`),
    ...(command.description() === '' ? [] : ['.br', escaped(command.description())]),
    ...command.options
      .filter((option) => !command.common.includes(option))
      .flatMap((option) => ['.RS', ...item(termOf(option), option.description), '.RE']),
  ]);
  const lines = [
    `.TH HEADRACE 1 "" "headrace ${escaped(version)}"`,
    '.SH NAME',
    'headrace \\- build, follow and deploy on a Headrace server',
    '.SH SYNOPSIS',
    '.B headrace',
    '.I COMMAND',
    '[\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]',
    '.SH COMMANDS',
    ...described,
    '.SH FLAGS OF EVERY COMMAND',
    ...(commands[0]?.common ?? []).flatMap((option) => item(termOf(option), option.description)),
    '.SH ENVIRONMENT',
    ...variables.flatMap(([name, about]) => item(name, about)),
    '.SH EXIT STATUS',
    ...statuses.flatMap((about, status) => item(String(status), about)),
    '.SH EXAMPLES',
    ...commands.flatMap(({ examples }) => examples.flatMap(([line, means]) => item(line, means && `${means}.`))),
  ];
  return `${lines.filter((line) => line !== '').join('\n')}\n`;
}

const variables: [string, string][] = [
  ['HEADRACE_URL', 'the address of the server'],
  ['HEADRACE_TOKEN', 'a token for it'],
  ['HEADRACE_CA_FILE', 'certificate authorities to check the server against'],
  ['HEADRACE_PROJECT', 'the project, by its name or identifier'],
  ['HEADRACE_REGISTRY_ALLOW', 'private addresses of registries that exec may call for images of a suite, as CIDR'],
  ['NO_COLOR', 'no colours, if it is set'],
  ['XDG_CONFIG_HOME', 'the folder in which headrace/servers.json is stored'],
];

const statuses = [
  'passed, or done',
  'failed',
  'wrong use',
  'could not be run, or the server cannot be reached or refuses the credentials',
  'cancelled',
];

function item(term: string, about: string): string[] {
  return ['.TP', `.B ${escaped(term)}`, escaped(about)];
}

/** Nothing in the result is a roff command. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('’', '\\(cq').replace(/^[.']/, '\\&$&');
}
