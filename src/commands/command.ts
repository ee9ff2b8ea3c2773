import { parseArgs } from 'node:util';
import { Client } from '../client/client.ts';
import type { Project } from '../client/operations.ts';
import { WrongUse } from './errors.ts';
import { findProject, type NamedIn } from './project.ts';
import { Screen } from './screen.ts';
import { openClient, type Choice } from './session.ts';

/** A command as data: help, completions, the manual page and the reading of arguments are all made of this. */
export interface Command {
  /** As it is typed: `run`, `dependency upload`. */
  words: string;
  /** Its arguments: `REF?` may be left out. */
  args: readonly string[];
  /** One line, without a full stop. */
  about: string;
  flags: readonly Flag[];
  /** A command line, and what it does. */
  examples: readonly (readonly [string, string])[];
  /** More for its own help. */
  details?: string;
  load(): Promise<{ run: (call: Call) => Promise<number | void> }>;
}

export interface Flag {
  name: string;
  short?: string;
  /** Another name of it. */
  also?: string;
  /** The name of its value; without one it is on or off. */
  value?: string;
  isRepeatable?: boolean;
  about: string;
}

/** Flags of every command. */
export const common: readonly Flag[] = [
  { name: 'project', value: 'NAME', about: 'the project, by its name or identifier, instead of the folder’s' },
  { name: 'json', about: 'answer in JSON' },
  { name: 'plain', about: 'no colours, and no lines that change' },
  { name: 'ca-file', value: 'FILE', about: 'the certificates that the server’s is checked against' },
  { name: 'verbose', short: 'v', about: 'say more about what went wrong' },
  { name: 'help', short: 'h', about: 'show this' },
];

/** What a command is called with. */
export class Call {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly screen: Screen;
  readonly #flags: Readonly<Record<string, unknown>>;
  #client: Client | undefined;

  constructor(parts: Pick<Call, 'args' | 'env' | 'cwd' | 'screen'> & { flags: Readonly<Record<string, unknown>> }) {
    this.args = parts.args;
    this.env = parts.env;
    this.cwd = parts.cwd;
    this.screen = parts.screen;
    this.#flags = parts.flags;
  }

  has(flag: string): boolean {
    return this.#flags[flag] === true;
  }

  value(flag: string): string | undefined {
    const value = this.#flags[flag];
    return typeof value === 'string' ? value : undefined;
  }

  values(flag: string): string[] {
    const value = this.#flags[flag];
    return Array.isArray(value) ? value.map(String) : [];
  }

  get choice(): Choice {
    return { env: this.env, caFile: this.value('ca-file') };
  }

  get client(): Client {
    this.#client ??= openClient(this.choice);
    return this.#client;
  }

  /** The project that is meant, also by a file that names one. */
  project(named?: NamedIn): Promise<Project> {
    const { HEADRACE_PROJECT: wanted = '' } = this.env;
    const project = this.value('project') ?? (wanted === '' ? undefined : wanted);
    return findProject(this.client, { project, cwd: this.cwd, named });
  }

  close(): void {
    this.#client?.close();
  }
}

export interface Parsed {
  args: string[];
  flags: Record<string, unknown>;
}

export function parse(command: Command, argv: readonly string[]): Parsed {
  const known = [...command.flags, ...common];
  const options = Object.fromEntries(
    known.flatMap(({ name, short, also, value, isRepeatable = false }) => {
      const form = { type: value === undefined ? 'boolean' : 'string', multiple: isRepeatable } as const;
      return [[name, short ? { ...form, short } : form] as const, ...(also ? [[also, form] as const] : [])];
    }),
  );
  let parsed;
  try {
    parsed = parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    // Node's own words go on about what a person may have meant.
    const [said = ''] = (error instanceof Error ? error.message : String(error)).split(/\. |\n/);
    throw new WrongUse(`${said}. ${usageHint(command)}`);
  }
  const { positionals: args, values } = parsed;
  const flags: Record<string, unknown> = { ...values };
  for (const { name, also } of known) if (also) flags[name] ??= flags[also];
  const least = command.args.filter((name) => !name.endsWith('?')).length;
  if (flags.help !== true && (args.length < least || args.length > command.args.length)) {
    const missing = command.args[args.length] ?? '';
    throw new WrongUse(
      args.length < least
        ? `${missing} is missing. ${usageHint(command)}`
        : `Too many arguments. ${usageHint(command)}`,
    );
  }
  return { args, flags };
}

/** All that can be typed for a flag. */
export function spellings({ name, short, also }: Flag): string[] {
  return [...(short === undefined ? [] : [`-${short}`]), `--${name}`, ...(also === undefined ? [] : [`--${also}`])];
}

export function usageOf({ words, args, flags }: Command): string {
  const places = args.map((name) => (name.endsWith('?') ? `[${name.slice(0, -1)}]` : name));
  const switches = flags.map((flag) => {
    const { value } = flag;
    const long = spellings(flag).join('|');
    return `[${value === undefined ? long : `${long} ${value}`}]`;
  });
  return ['headrace', words, ...places, ...switches].join(' ');
}

function usageHint(command: Command): string {
  return `usage: ${usageOf(command)}`;
}
