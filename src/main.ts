import { admin, runnerAdmin } from './cli/admin.ts';
import { appAdmin } from './cli/apps.ts';
import { backup } from './cli/backup.ts';
import { runCommand, UsageError, usageOf, type Command } from './cli/commands.ts';
import { rotateMasterKey } from './cli/master-key.ts';
import { migrateCommand } from './cli/migrate.ts';
import { restore } from './cli/restore.ts';
import { runner } from './cli/runner.ts';
import { serve } from './cli/serve.ts';

const commands: Command[] = [
  serve,
  runner,
  ...admin,
  ...appAdmin,
  runnerAdmin,
  rotateMasterKey,
  migrateCommand,
  backup,
  restore,
];

const [first, ...rest] = process.argv.slice(2);
if (first === undefined || first === 'help' || first === '--help') {
  console.log(usageOf(commands));
} else {
  try {
    await runCommand(commands, [first, ...rest], process.env);
  } catch (error) {
    console.error(`headrace: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
