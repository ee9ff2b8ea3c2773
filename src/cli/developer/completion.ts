import type { Option } from 'commander';
import { leavesOf, type Command } from './program.ts';
import { quote } from '../../shared/lib/shell-word.ts';

export function completionsFor({ commands }: Command, shell: string): string {
  return { bash, zsh, fish }[shell as 'bash' | 'zsh' | 'fish'](commands);
}

function optionsOf(command: Command): Option[] {
  const all = [command, ...leavesOf(command)].flatMap(({ options }) => options);
  return [...all, command.createOption('-h, --help', 'show this')];
}

function wordsAfter({ commands, registeredArguments: [first] }: Command): string {
  return (commands.length > 0 ? commands.map((one) => one.name()) : (first?.argChoices ?? [])).join(' ');
}

const aboutOf = (command: Command): string => command.summary() || leavesOf(command)[0]?.summary() || '';

/** Without a match, the shell completes file names. */
function bash(commands: readonly Command[]): string {
  const names = commands.map((one) => one.name()).join(' ');
  const cases = commands.map((one) => {
    const flags = optionsOf(one).flatMap(({ short, long }) => [short, long].filter((flag) => flag !== undefined));
    return `    ${one.name()}) words='${wordsAfter(one)}' flags='${flags.join(' ')}' ;;`;
  });
  return `# headrace: completion for bash. Use it with: source <(headrace completion bash)
_headrace() {
  local current=\${COMP_WORDS[COMP_CWORD]} first=\${COMP_WORDS[1]} words='' flags=''
  [ "$COMP_CWORD" -gt 1 ] || first=help
  case $first in
    help) words='${names} help' ;;
${cases.join('\n')}
  esac
  [ "$COMP_CWORD" -le 2 ] || words=''
  case $current in -*) words=$flags ;; esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _headrace headrace
`;
}

/** zsh can run completions for bash. */
function zsh(commands: readonly Command[]): string {
  return `# headrace: completion for zsh. Use it, after compinit, with: source <(headrace completion zsh)
autoload -U +X bashcompinit && bashcompinit
${bash(commands)}`;
}

function fish(commands: readonly Command[]): string {
  const lines = commands.flatMap((one) => {
    const within = `complete -c headrace -n '__fish_seen_subcommand_from ${one.name()}'`;
    const words = wordsAfter(one);
    return [
      `complete -c headrace -n __fish_use_subcommand -f -a ${one.name()} -d ${quote(aboutOf(one))}`,
      ...(words === '' ? [] : [`${within} -a ${quote(words)}`]),
      ...optionsOf(one).map(({ short, long, required, description }) => {
        const names = [...(short === undefined ? [] : ['-s', short.slice(1)]), '-l', long?.slice(2)].join(' ');
        return `${within} ${names}${required ? ' -r' : ''} -d ${quote(description)}`;
      }),
    ];
  });
  return `# headrace: completion for fish. Use it with: headrace completion fish | source\n${lines.join('\n')}\n`;
}
