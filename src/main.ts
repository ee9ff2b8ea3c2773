import type { Command } from './cli/commands.ts';

/** Commands by their first word, loaded on demand: a server need not hold the runner's code in memory. */
const commands: Record<string, () => Promise<Command[]>> = {
  serve: async () => [(await import('./cli/serve.ts')).serve],
  runner: async () => [(await import('./cli/runner.ts')).runner],
  scale: async () => [(await import('./cli/scale.ts')).scaleSlurm],
  admin: async () => {
    const { admin } = await import('./cli/admin.ts');
    const { appAdmin } = await import('./cli/apps.ts');
    const { auditCommand } = await import('./cli/audit.ts');
    const { runnerAdmin } = await import('./cli/runners.ts');
    const { rotateMasterKey } = await import('./cli/master-key.ts');
    return [...admin, ...appAdmin, ...runnerAdmin, rotateMasterKey, auditCommand];
  },
  migrate: async () => [(await import('./cli/migrate.ts')).migrateCommand],
  backup: async () => [(await import('./cli/backup.ts')).backup],
  restore: async () => [(await import('./cli/restore.ts')).restore],
  blobs: async () => [(await import('./cli/blobs.ts')).blobsCommand],
};

async function allCommands(): Promise<Command[]> {
  return (await Promise.all(Object.values(commands).map((load) => load()))).flat();
}

// Files of this program are for its owner only, whatever the shell's umask. Where builds, which run as another user,
// need access, the runner changes that.
process.umask(0o077);

const [first = 'help', ...rest] = process.argv.slice(2);
const load = Object.hasOwn(commands, first) ? commands[first] : undefined;
if (load || (first === 'help' && rest[0] === 'server')) {
  const { failWith, runCommand, usageOf } = await import('./cli/commands.ts');
  try {
    if (load) await runCommand(await load(), [first, ...rest], process.env);
    else console.log(usageOf(await allCommands()));
  } catch (error) {
    failWith(error);
  }
} else {
  // Whoever asks how a build stands does not wait for anything of a server to be loaded.
  const { main } = await import('./commands/main.ts');
  const { env, stdout: out, stderr: err } = process;
  process.exitCode = await main([first, ...rest], { env, cwd: process.cwd(), out, err });
}
