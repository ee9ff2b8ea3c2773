import { failWith } from './cli/call.ts';
import { operatorProgram } from './cli/catalog.ts';

// Files of this program are for its owner only, whatever the shell's umask. Where builds, which run as another user,
// need access, the runner changes that.
process.umask(0o077);

const argv = process.argv.slice(2);
const program = operatorProgram(process.env);
const [word = ''] = argv[0] === 'help' ? argv.slice(1) : argv;
if (word === 'server' || program.commands.some((command) => command.name() === word)) {
  await program.perform(argv).catch(failWith);
} else {
  // So a command for developers does not load the code of a server.
  const { main } = await import('./commands/main.ts');
  await main(argv);
}
