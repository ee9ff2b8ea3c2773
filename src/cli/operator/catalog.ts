import { Option } from 'commander';
import { WrongUse } from '../developer/errors.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { Command, only, repeated } from '../developer/program.ts';
import { tagForm, tagRule } from '../../shared/domain/tags.ts';
import type { Call } from './call.ts';

type SettingOptions = Record<string, string> & { tag?: string[] };

type Run = (call: Call<never>, ...args: never[]) => Promise<void>;

const idle = only(/^\d{1,6}$/, '--idle is a whole number of seconds, up to 999999');
const max = only(/^[1-9]\d{0,4}$/, '--max is a whole number from 1 to 99999');
const partition = only(/^[\w.,-]{1,255}$/, '--partition is a name');
const tag = only(tagForm, `--tag: ${tagRule}`);

const users = () => import('./admin.ts');
const apps = () => import('./apps.ts');
const runners = () => import('./runners.ts');

/** Doctor's exit status shows whether builds are isolated. An unreadable setting has another one. */
function configOf<Config>(name: string, read: () => Config): Config {
  try {
    return read();
  } catch (error) {
    throw name === 'doctor' ? new WrongUse(messageOf(error)) : error;
  }
}

/** Each command's code is loaded on demand, so a server does not hold the runner's code in memory. */
export function operatorProgram(env: NodeJS.ProcessEnv): Command {
  const program = new Command('headrace').usage('COMMAND [--data-dir D] [--config F] [--help]');
  const add = <Name extends string>(usage: string, load: () => Promise<Record<Name, Run>>, name: Name): Command =>
    program.add(usage, async (options, args) => {
      const { readConfig } = await import('../../shared/config.ts');
      const { dataDir, tag: tags, ...rest } = options as SettingOptions;
      const flags = { ...rest, data_dir: dataDir, tags: tags?.join(',') };
      const config = configOf(name, () => readConfig({ flags, env }));
      const run = (await load())[name];
      await run({ config, options: options as never }, ...(args as never[]));
    });

  add('serve', () => import('./serve.ts'), 'serve')
    .summary('Run the service')
    .option('--host <H>', 'where it listens: an address, or the path of a socket (default 127.0.0.1)')
    .option('--port <P>', 'on which port (default 8443)')
    .option('--no-runner', 'do not start a runner on this machine')
    .addOption(repeated('--tag <T>', 'a tag of its runner', tag))
    .option('--first-user-file <F>', 'write the first user’s credentials there instead of printing them');

  add('runner', () => import('./runner.ts'), 'runner')
    .summary('Run jobs for a server on another machine')
    .option('--url <U>', 'the address of the server')
    .option('--token-file <F>', 'a file with the token of the runner')
    .option('--ca-file <F>', 'certificate authorities to check the server against')
    .option('--concurrency <N>', 'how many builds at once (default: the number of processors)')
    .addOption(repeated('--tag <T>', 'a tag that suites can request', tag))
    .option('--once', 'do one job and end')
    .option('--until-idle', 'do jobs until none has come for a while, then end')
    .option('--idle <SECONDS>', 'with --once or --until-idle, how long that is (default 60)', idle)
    .option('--ready-file <F>', 'a file that exists while the runner is connected to its server')
    .option('--scratch <D>', 'work in a new folder below D, deleted when the runner ends')
    .addOption(new Option('--local').hideHelp())
    .addOption(new Option('--started-as <D>').hideHelp())
    .addOption(new Option('--trial').hideHelp());

  add('doctor', () => import('./doctor/doctor.ts'), 'doctor').summary(
    'Check what a server and a runner need on this machine, and print how to fix the rest',
  );

  add('scale slurm', () => import('./scale.ts'), 'scaleSlurm')
    .summary('Keep as many runners in a Slurm cluster as the queue needs, and none when it is empty')
    .requiredOption('--url <U>', 'the address of the server')
    .requiredOption('--token-file <F>', 'a file with the token of the runners')
    .option('--ca-file <F>', 'certificate authorities to check the server against')
    .option('--max <N>', 'the most jobs at a time (default 10)', max)
    .option('--partition <P>', 'the partition, if not the default one', partition)
    .option('--idle <SECONDS>', 'seconds that a job waits for work before it ends (default 60)', idle)
    .addOption(repeated('--tag <T>', 'a tag of the runners', tag))
    .option('--scratch <D>', 'a folder on each node for the jobs’ files (default /var/tmp/headrace-UID)')
    .option('--output <F>', 'where the runners’ messages go, as sbatch takes it (default: nowhere)')
    .option('--program <F>', 'bin/headrace on the nodes, if its path differs there');

  add('admin user create <EMAIL>', users, 'createUser')
    .summary('Create an account, or complete an invited one, and print its password and API key, once')
    .option('--collaborator', 'an account without projects of its own');
  add('admin user reset <EMAIL>', users, 'resetUser').summary(
    'Give an account a new password and API key; the old ones stop working',
  );
  add('admin user password-link <EMAIL>', users, 'linkToPassword').summary(
    'Make a link to set the password of an account; it works once, within a week',
  );
  add('admin user suspend <EMAIL>', users, 'suspendUser').summary(
    'Suspend an account: it can no longer sign in or call the API',
  );
  add('admin user resume <EMAIL>', users, 'resumeUser').summary('Lift the suspension of an account');
  add('admin user billing <EMAIL> <STATE>', users, 'billUser').summary(
    'Set the billing state of an account: ok, trial_ended, overdue',
  );
  add('admin user operator <EMAIL> <on|off>', users, 'makeOperator').summary(
    'Make an account an operator, who sees the audit log, the runners and the state of the installation',
  );

  add('admin app create', apps, 'createApp')
    .summary('Register an OAuth application and print its secret, once; a public one has none and uses PKCE')
    .requiredOption('--user <EMAIL>', 'the account that it belongs to')
    .requiredOption('--name <N>', 'the name that users see')
    .addOption(repeated('--redirect-uri <R>', 'where users return with their answer').makeOptionMandatory())
    .option('--public', 'a distributed application, without a secret');
  add('admin app list', apps, 'listApps').summary('Print every registered application and who registered it');
  add('admin app delete <CLIENT_ID>', apps, 'deleteApp').summary('Delete an application; all its tokens stop working');

  add('admin runner create <NAME>', runners, 'createRunner')
    .summary('Register a runner on another machine, and print its token, once')
    .addOption(repeated('--account <EMAIL>', 'work only for this account'))
    .addOption(repeated('--organisation <NAME>', 'work only for this organisation'));
  add('admin runner list', runners, 'listRunners').summary(
    'Print every runner that was created, and for which accounts it works; no account means all',
  );
  add('admin runner revoke <NAME>', runners, 'revoke').summary(
    'Revoke a runner: its token stops working at once, and other runners repeat its jobs',
  );
  add('admin runner drain <NAME>', runners, 'drain')
    .summary('Give a runner no new jobs: it ends after its present ones')
    .option('--off', 'undo the drain');
  add('admin runner rotate <NAME>', runners, 'rotate').summary(
    'Give a runner a new token and print it, once; the old one stops working at once',
  );

  add('admin master-key rotate', () => import('./master-key.ts'), 'rotateMasterKey').summary(
    'Encrypt every stored secret with a new master key and remove the old one; servers may keep running',
  );
  add('admin audit', () => import('./audit.ts'), 'audit')
    .summary('Print the audit log, oldest first, as one JSON object per line')
    .option('--since <T>', 'from then on: a date, or a date and time (ISO 8601)');

  add('migrate', () => import('./migrate.ts'), 'migrateStore').summary(
    'Migrate the database to this version; a server does so itself when it starts',
  );
  add('backup <FILE>', () => import('./backup.ts'), 'backup')
    .summary('Write everything into one file, while the server runs; the file contains the master key')
    .option('--without-keys', 'leave the keys out')
    .option('--with-blobs', 'include blobs that are not in the data folder');
  add('restore <FILE>', () => import('./restore.ts'), 'restore').summary(
    'Restore a backup into an empty database and data folder; the kind of database may differ',
  );
  add('blobs copy <FROM> <TO>', () => import('./blobs.ts'), 'copy').summary(
    'Copy all blobs to another store, also while they are in use; FROM and TO have the form of blob_url',
  );

  return program.everywhere(
    new Option('--data-dir <D>', 'the folder of the server’s data (default: data)'),
    new Option('--config <F>', 'the file with the settings (default: headrace.toml in that folder)'),
    new Option('--json', 'print JSON alone on standard output; commands of admin always do'),
  );
}
