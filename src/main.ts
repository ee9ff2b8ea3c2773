import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { failWith } from './cli/operator/call.ts';
import { operatorProgram } from './cli/operator/catalog.ts';

// Files of this program are for its owner only, whatever the shell's umask. Where builds, which run as another user,
// need access, the runner changes that.
process.umask(0o077);

// Of a host with several addresses Node gives up each but the last after a quarter of a second. A host that is far away, or
// a busy machine, needs longer, and then only the last address counted.
setDefaultAutoSelectFamilyAttemptTimeout(2500);

const argv = process.argv.slice(2);
const program = operatorProgram(process.env);
const [word = ''] = argv[0] === 'help' ? argv.slice(1) : argv;
if (word === 'server' || program.commands.some((command) => command.name() === word)) {
  await program.perform(argv).catch(failWith);
} else {
  // So a command for developers does not load the code of a server.
  const { main } = await import('./cli/developer/main.ts');
  await main(argv);
}
