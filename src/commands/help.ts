import { common, spellings, usageOf, type Command, type Flag } from './command.ts';

/** Help on one screen: every command on a line. */
export function overview(commands: readonly Command[]): string {
  const rows = commands.map(({ words, args, about }) => {
    const places = args.map((name) => (name.endsWith('?') ? `[${name.slice(0, -1)}]` : name));
    return [[words, ...places].join(' '), about] as const;
  });
  return [
    'usage: headrace COMMAND [--project NAME] [--json] [--plain] [--help]',
    ...aligned(rows),
    'For who runs a server: headrace serve, runner, scale, admin, migrate, backup,',
    '  restore, blobs. More about these: headrace help server',
    'More about a command: headrace help COMMAND',
    '',
  ].join('\n');
}

export function commandHelp(command: Command): string {
  const { about, details, flags, examples } = command;
  return [
    `${about}.`,
    '',
    `usage: ${usageOf(command)}`,
    ...(details === undefined ? [] : ['', ...wrapped(details, 78)]),
    '',
    ...aligned([...flags, ...common].map((flag) => [flagText(flag), flag.about] as const)),
    '',
    'examples:',
    ...examples.flatMap(([line, means]) => [`  ${line}`, ...(means === '' ? [] : [`      ${means}`])]),
    '',
  ].join('\n');
}

export function flagText(flag: Flag): string {
  return `${spellings(flag).join(', ')}${flag.value === undefined ? '' : ` ${flag.value}`}`;
}

function aligned(rows: readonly (readonly [string, string])[]): string[] {
  const widest = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(widest)}  ${right}`);
}

export function wrapped(text: string, columns: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? '';
    if (last !== '' && last.length + word.length + 1 > columns) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return lines;
}
