import { parseArgs } from 'node:util';
import { readConfig, type Config } from '../config.ts';

/** A command of the command line, as data: its words, its arguments, and its action. */
export interface Command {
  /** As a person types it: capitals are values, brackets are optional, dots mean that a flag may be repeated. */
  usage: string;
  about: string;
  run(call: CommandCall): Promise<void>;
}

export interface CommandCall {
  config: Config;
  /** The values of the words in capitals. */
  values: string[];
  /** Flags of this command only, without their dashes. */
  flags: Record<string, string | undefined>;
  /** Flags that may be repeated, with all their values. */
  lists: Record<string, string[]>;
}

/** The command line was wrong; the message and the usage are shown to the person. */
export class UsageError extends Error {}

/** A number of seconds, up to a year. */
export function readSeconds(flag: string, value: string): number {
  const seconds = /^[0-9]{1,8}$/.test(value) ? Number(value) : Number.NaN;
  if (seconds >= 0 && seconds <= 365 * 24 * 3600) return seconds;
  throw new UsageError(`${flag} is a whole number of seconds`);
}

/** Prints the error on standard error and exits, whatever is still open. */
export function failWith(error: unknown): never {
  const { status, complaint } = failureOf(error);
  console.error(complaint);
  process.exit(status);
}

/** The exit status and the message of a failed command. */
export function failureOf(error: unknown): { status: number; complaint: string } {
  const complaint = `headrace: ${error instanceof Error ? error.message : String(error)}`;
  return { status: error instanceof UsageError ? 2 : 1, complaint };
}

/** The flags by which every command finds the store. */
const common = ['--data-dir D', '--config F'];

export async function runCommand(commands: readonly Command[], argv: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const command = find(commands, argv);
  if (!command) throw new UsageError(usageOf(commands));
  const words = wordsOf(command.usage);
  const options = Object.fromEntries(
    flagsOf(command.usage).map(({ name, takesValue, isRepeatable }) => [
      name,
      { type: takesValue ? 'string' : 'boolean', multiple: isRepeatable } as const,
    ]),
  );
  let parsed;
  try {
    parsed = parseArgs({ args: argv.slice(words.length), options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\n${usageOf([command])}`);
  }
  const wanted = valuesOf(command.usage);
  if (parsed.positionals.length !== wanted.length) throw new UsageError(usageOf([command]));
  const flags: CommandCall['flags'] = {};
  const lists: CommandCall['lists'] = {};
  for (const [dashed, value] of Object.entries(parsed.values)) {
    const name = dashed.replaceAll('-', '_');
    if (Array.isArray(value)) lists[name] = value.map(String);
    else flags[name] = value === undefined ? undefined : String(value);
  }
  await command.run({ config: readConfig({ flags, env }), values: parsed.positionals, flags, lists });
}

function find(commands: readonly Command[], argv: string[]): Command | undefined {
  return commands.find((command) => wordsOf(command.usage).every((word, at) => argv[at] === word));
}

/** `admin user create EMAIL [--collaborator]` begins with three words. */
function wordsOf(usage: string): string[] {
  return /^[a-z -]+?(?= (?:[A-Z[-]|[a-z|]+\|)|$)/.exec(usage)?.[0].split(' ') ?? [];
}

function valuesOf(usage: string): string[] {
  const rest = usage.slice(wordsOf(usage).join(' ').length).replaceAll(/\[[^\]]*\]|--[a-z-]+ [A-Z]+(\.\.\.)?/g, '');
  return rest.split(' ').filter((word) => word !== '');
}

function flagsOf(usage: string): { name: string; takesValue: boolean; isRepeatable: boolean }[] {
  const all = `${usage} ${common.map((flag) => `[${flag}]`).join(' ')}`;
  const matches = all.matchAll(/--([a-z-]+)(?: [A-Z]+(\.\.\.)?)?/g);
  return Array.from(matches, ([text, name = '', dots]) => ({
    name,
    takesValue: text.includes(' '),
    isRepeatable: dots !== undefined,
  }));
}

export function usageOf(commands: readonly Command[]): string {
  const lines = commands.map(({ usage, about }) => `  headrace ${usage}\n      ${about}`);
  return ['usage:', ...lines, `Every command takes ${common.join(' and ')}.`].join('\n');
}
