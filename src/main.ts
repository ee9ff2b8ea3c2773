import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { failWith } from './cli/operator/call.ts';
import { operatorProgram } from './cli/operator/catalog.ts';

// Files are only for their owner, whatever the umask. The runner opens those for builds, which run as another user.
process.umask(0o077);

// Node's default of 250 ms per address of a host is too short for distant hosts and busy machines.
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
