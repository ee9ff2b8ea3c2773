import { Command as Base, Option, type Help } from 'commander';
import { WrongUse } from './errors.ts';

/** Used for developers' and for operators' commands. */
export class Command extends Base {
  declare readonly commands: readonly Command[];
  declare parent: Command | null;
  readonly examples: (readonly [line: string, means: string])[] = [];
  common: readonly Option[] = [];

  constructor(name?: string) {
    super(name);
    this.helpCommand(false).helpOption('-h, --help', 'show this');
    this.configureHelp({ formatHelp, visibleCommands: leavesOf, subcommandTerm: commandLine, optionTerm: termOf });
  }

  override createCommand(name?: string): Command {
    return new Command(name);
  }

  /** `usage` has words and arguments, such as `dependency upload <NAME> <FILE>`. */
  add(usage: string, run: (options: object, args: string[]) => Promise<void>): Command {
    const [words = '', ...args] = usage.split(/ (?=[<[])/);
    const groups = words.split(' ');
    const name = groups.pop() ?? '';
    const find = (at: Command, word: string): Command =>
      at.commands.find((one) => one.name() === word) ?? at.command(word).usage('COMMAND');
    const made = groups.reduce<Command>(find, this).command([name, ...args].join(' '));
    return made.action(() => run(made.opts(), made.processedArgs as string[]));
  }

  example(line: string, means = ''): this {
    this.examples.push([line, means]);
    return this;
  }

  everywhere(...options: Option[]): this {
    for (const command of leavesOf(this)) {
      command.common = options;
      for (const option of options) command.addOption(option);
    }
    return this;
  }

  /** `help run` is the same as `run --help`. Without arguments it shows the help. */
  async perform(argv: readonly string[]): Promise<void> {
    const [first = 'help', ...rest] = argv;
    await this.parseAsync(first === 'help' ? [...rest, '--help'] : argv, { from: 'user' });
  }

  override error(message: string): never {
    const complaint = message.replace(/^error: /, '').replace(/^missing required argument '(.*)'$/, '$1 is missing');
    const more = this.commands.length > 0 ? `; see: headrace help ${commandLine(this)}`.trimEnd() : '';
    throw new WrongUse(`${complaint.replaceAll('\n', ' ').replace(/\.$/, '')}. usage: ${usageOf(this)}${more}`);
  }

  override help(): never {
    return this.error('COMMAND is missing');
  }
}

export function only(form: RegExp, otherwise: string): (value: string) => string {
  return (value) => {
    if (!form.test(value)) throw new WrongUse(otherwise);
    return value;
  };
}

export function repeated(flags: string, about: string, read = (value: string): string => value): Option {
  const option = new Option(flags, `${about}; can be repeated`);
  return option.argParser<string[] | undefined>((value, before) => [...(before ?? []), read(value)]);
}

export function leavesOf(command: Base): Command[] {
  return (command as Command).commands.flatMap((one) => (one.commands.length > 0 ? leavesOf(one) : [one]));
}

/** Such as `dependency upload NAME FILE`. */
export function commandLine(command: Base): string {
  if (!command.parent) return '';
  const args = command.registeredArguments.map((one) => {
    const name = one.variadic ? `${one.name()}…` : one.name();
    return one.required ? name : `[${name}]`;
  });
  return [commandLine(command.parent), command.name(), ...args].join(' ').trim();
}

export function usageOf(command: Command): string {
  const options = command.options
    .filter((option) => !option.hidden && !command.common.includes(option))
    .map((option) => (option.mandatory ? termOf(option) : `[${termOf(option).replace(/, --[\w-]+/, '')}]`));
  const rest = command.commands.length > 0 ? [command.usage()] : options;
  return ['headrace', commandLine(command), ...rest].filter((part) => part !== '').join(' ');
}

export function termOf({ flags }: Option): string {
  return flags.replaceAll(/[<>]/g, '');
}

function formatHelp(base: Base, helper: Help): string {
  const command = base as Command;
  const wide = helper.padWidth(command, helper);
  const item = (term: string, about: string): string => helper.formatItem(term, wide, about, helper);
  const commands = helper.visibleCommands(command).map((one) => item(commandLine(one), one.summary()));
  const options = helper.visibleOptions(command).map((one) => item(termOf(one), one.description));
  const examples = command.examples.map(([line, means]) => `\n  ${line}${means && `\n      ${means}`}`);
  const parts = [
    command.summary() && `${command.summary()}.`,
    [`usage: ${usageOf(command)}`, ...commands].join('\n'),
    helper.boxWrap(command.description(), helper.helpWidth ?? 80),
    commands.length > 0 ? '' : options.join('\n'),
    examples.length > 0 ? `examples:${examples.join('')}` : '',
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}
