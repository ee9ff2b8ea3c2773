import { catalog } from './catalog.ts';
import { common, spellings, type Call, type Command, type Flag } from './command.ts';
import { WrongUse } from './errors.ts';

/** Completions for shells, made of the same list as the help. */
export async function run({ args, screen }: Call): Promise<void> {
  const shells: Record<string, () => string> = { bash, zsh, fish };
  const shell = args[0] ?? '';
  const made = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
  if (!made) throw new WrongUse(`There are completions for ${Object.keys(shells).join(', ')}.`);
  screen.out.write(made());
}

const flagsOf = (command: Command): string[] => [...command.flags, ...common].flatMap(spellings);

/** Flags after which a file is meant. */
const takesFile = new Set(['ca-file', 'file', 'output']);

function fileFlags(): string[] {
  const all = [...catalog.flatMap(({ flags }) => flags), ...common].filter(({ name }) => takesFile.has(name));
  return [...new Set(all.flatMap(spellings))];
}

function bash(): string {
  const firsts = [...new Set(catalog.map(({ words }) => words.split(' ')[0] ?? ''))];
  const cases = catalog.map((command) => {
    const [first = '', second] = command.words.split(' ');
    const flags = flagsOf(command).join(' ');
    return `    ${first}) flags='${flags}'; seconds='${second ?? secondsOf(first)}' ;;`;
  });
  return `# headrace: completion for bash. Use it with: source <(headrace completion bash)
_headrace() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} flags='' seconds=''
  COMPREPLY=()
  case $before in ${fileFlags().join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;; esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${firsts.join(' ')} help' -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
    help) seconds='${firsts.join(' ')}' ;;
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *)
      [ "$COMP_CWORD" -eq 2 ] && COMPREPLY=($(compgen -W "$seconds" -- "$current"))
      [ \${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))
      ;;
  esac
}
complete -o filenames -F _headrace headrace
`;
}

/** Words that an argument can be. */
function secondsOf(first: string): string {
  return first === 'completion' ? 'bash zsh fish' : '';
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function zsh(): string {
  const described = catalog.map(({ words, about }) =>
    quoted(`${words.split(' ')[0] ?? ''}:${about.replaceAll(':', ' ')}`),
  );
  const cases = catalog.map((command) => {
    const [first = '', second] = command.words.split(' ');
    const flags = [...command.flags, ...common].flatMap((flag) => {
      const { name, value, about } = flag;
      const what = about.replaceAll(/[[\]:]/g, ' ');
      const taken = value === undefined ? '' : `:${value}:${takesFile.has(name) ? '_files' : ''}`;
      return spellings(flag)
        .filter((one) => one.startsWith('--'))
        .map((one) => quoted(`${one}[${what}]${taken}`));
    });
    const words = second ?? secondsOf(first);
    const place = words === '' ? quoted('*:argument:_files') : quoted(`1:word:(${words})`);
    return `    ${first}) _arguments ${[...flags, place].join(' ')} ;;`;
  });
  return `#compdef headrace
# headrace: completion for zsh. Put it into a folder of $fpath as _headrace.
_headrace() {
  local -a commands
  commands=(${described.join(' ')} 'help:Show help')
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local word=$words[2]
  shift words
  (( CURRENT-- ))
  case $word in
${cases.join('\n')}
  esac
}
compdef _headrace headrace
`;
}

function fish(): string {
  const lines = catalog.flatMap(({ words, about, flags }) => {
    const [first = '', second] = words.split(' ');
    const within = `__fish_seen_subcommand_from ${first}`;
    const seconds = second ?? secondsOf(first);
    return [
      `complete -c headrace -n __fish_use_subcommand -f -a ${first} -d ${quoted(about)}`,
      ...(seconds === '' ? [] : [`complete -c headrace -n ${quoted(within)} -a ${quoted(seconds)}`]),
      ...flags.map((flag) => `complete -c headrace -n ${quoted(within)}${fishFlag(flag)}`),
    ];
  });
  const everywhere = common.map((flag) => `complete -c headrace${fishFlag(flag)}`);
  return `# headrace: completion for fish. Use it with: headrace completion fish | source\n${[...lines, ...everywhere].join('\n')}\n`;
}

function fishFlag({ name, short, also, value, about }: Flag): string {
  const names = ` -l ${name}${also === undefined ? '' : ` -l ${also}`}${short === undefined ? '' : ` -s ${short}`}`;
  return `${names}${value === undefined ? '' : ' -r'} -d ${quoted(about)}`;
}
