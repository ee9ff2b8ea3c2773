import type { Option } from 'commander';
import type { Call } from './call.ts';
import { developerProgram } from './catalog.ts';
import { leavesOf, type Command } from './program.ts';

/** Completions for shells, made of the commands as they are. */
export async function run({ screen }: Call, shell: string): Promise<void> {
  const { commands } = developerProgram();
  screen.out.write({ bash, zsh, fish }[shell as 'bash' | 'zsh' | 'fish'](commands));
}

/** The options of a command, and of those below it. */
function optionsOf(command: Command): Option[] {
  const all = [command, ...leavesOf(command)].flatMap(({ options }) => options);
  return [...all, command.createOption('-h, --help', 'show this')];
}

/** The words that can follow a command: of what goes on below it, or of its argument. */
function wordsAfter({ commands, registeredArguments: [first] }: Command): string {
  return (commands.length > 0 ? commands.map((one) => one.name()) : (first?.argChoices ?? [])).join(' ');
}

const spellings = ({ short, long }: Option): string[] => [short, long].filter((one) => one !== undefined);
const takesFile = ({ flags }: Option): boolean => /<(?:FILE|DIR)>/.test(flags);
const aboutOf = (command: Command): string => command.summary() || leavesOf(command)[0]?.summary() || '';
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function bash(commands: readonly Command[]): string {
  const names = commands.map((one) => one.name()).join(' ');
  const files = new Set(commands.flatMap(optionsOf).filter(takesFile).flatMap(spellings));
  const cases = commands.map((one) => {
    const flags = optionsOf(one).flatMap(spellings).join(' ');
    return `    ${one.name()}) flags='${flags}'; seconds='${wordsAfter(one)}' ;;`;
  });
  return `# headrace: completion for bash. Use it with: source <(headrace completion bash)
_headrace() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} flags='' seconds=''
  COMPREPLY=()
  case $before in ${[...files].join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;; esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${names} help' -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
    help) seconds='${names}' ;;
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

function zsh(commands: readonly Command[]): string {
  const described = commands.map((one) => quoted(`${one.name()}:${aboutOf(one).replaceAll(':', ' ')}`));
  const cases = commands.map((one) => {
    const flags = optionsOf(one).map((option) => {
      const value = option.required ? `:value:${takesFile(option) ? '_files' : ''}` : '';
      return quoted(`${option.long}[${option.description.replaceAll(/[[\]:]/g, ' ')}]${value}`);
    });
    const words = wordsAfter(one);
    return `    ${one.name()}) _arguments ${flags.join(' ')} ${quoted(words === '' ? '*:argument:_files' : `1:word:(${words})`)} ;;`;
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

function fish(commands: readonly Command[]): string {
  const lines = commands.flatMap((one) => {
    const within = `complete -c headrace -n '__fish_seen_subcommand_from ${one.name()}'`;
    const words = wordsAfter(one);
    return [
      `complete -c headrace -n __fish_use_subcommand -f -a ${one.name()} -d ${quoted(aboutOf(one))}`,
      ...(words === '' ? [] : [`${within} -a ${quoted(words)}`]),
      ...optionsOf(one).map(({ short, long, required, description }) => {
        const names = [...(short === undefined ? [] : ['-s', short.slice(1)]), '-l', long?.slice(2)].join(' ');
        return `${within} ${names}${required ? ' -r' : ''} -d ${quoted(description)}`;
      }),
    ];
  });
  return `# headrace: completion for fish. Use it with: headrace completion fish | source\n${lines.join('\n')}\n`;
}
