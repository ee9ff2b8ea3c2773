import { catalog } from './catalog.ts';
import { Call, parse, type Command } from './command.ts';
import { complaintOf, WrongUse } from './errors.ts';
import { commandHelp, overview } from './help.ts';
import { Screen } from './screen.ts';
import { clean } from './text.ts';

export interface Surroundings {
  env: NodeJS.ProcessEnv;
  cwd: string;
  out: NodeJS.WriteStream;
  err: NodeJS.WriteStream;
}

/** Runs a command for developers, and answers its exit status. */
export async function main(argv: readonly string[], around: Surroundings): Promise<number> {
  // Whoever reads has read enough: that is no error.
  around.out.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 3));
  const isVerbose = argv.includes('--verbose') || argv.includes('-v');
  try {
    return await run(argv, around);
  } catch (error) {
    const { status, text } = complaintOf(error, isVerbose);
    around.err.write(`${text}\n`);
    return status;
  }
}

async function run(argv: readonly string[], { env, cwd, out, err }: Surroundings): Promise<number> {
  const [first = 'help'] = argv;
  if (first === 'help' || first === '--help' || first === '-h') {
    const named = first === 'help' ? commandOf(argv.slice(1)) : undefined;
    out.write(named ? commandHelp(named) : overview(catalog));
    return 0;
  }
  const command = commandOf(argv);
  if (!command)
    throw new WrongUse(`There is no command ${clean(argv.join(' '))}. usage: headrace COMMAND; see: headrace help`);
  const { args, flags } = parse(command, argv.slice(command.words.split(' ').length));
  if (flags.help === true) {
    out.write(commandHelp(command));
    return 0;
  }
  const isJson = flags.json === true;
  const screen = new Screen({ out, err, isPlain: flags.plain === true, isJson, env });
  const call = new Call({ args, flags, env, cwd, screen });
  try {
    const { run: perform } = await command.load();
    return (await perform(call)) ?? 0;
  } finally {
    call.close();
  }
}

function commandOf(argv: readonly string[]): Command | undefined {
  return catalog.find(({ words }) => words.split(' ').every((word, at) => argv[at] === word));
}
