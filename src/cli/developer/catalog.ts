import { Argument, Option } from 'commander';
import { Call } from './call.ts';
import { Command, only, repeated } from './program.ts';

/** The export of a command's module. It gets the arguments in their order. */
type Load = () => Promise<{ run: (call: Call<never>, ...args: never[]) => Promise<number | void> }>;

/** For every command that starts something, or shows something that ends. */
const following = 'show what happens until it is over, and exit with its result';
const wait = new Option('--wait', 'the same as --follow').implies({ follow: true });

const limit = only(/^[1-9]\d{0,2}$|^1000$/, '--limit is a whole number from 1 to 1000');
const shells = ['bash', 'zsh', 'fish'];
const shell = only(/^(bash|zsh|fish)$/, `There are completions for ${shells.join(', ')}.`);

/** In the order of the help. A command's code is loaded when it is called. */
export function developerProgram(): Command {
  const program = new Command('headrace').usage('COMMAND [--project NAME] [--json] [--plain] [--help]');
  const add = (usage: string, load: Load): Command =>
    program.add(usage, async (options, args) => {
      const { run } = await load();
      using call = new Call(options);
      process.exitCode = (await run(call as Call<never>, ...(args as never[]))) ?? 0;
    });

  add('login <URL>', () => import('./login.ts'))
    .summary('Sign in to a server')
    .description(
      'The token is kept in servers.json under $XDG_CONFIG_HOME/headrace (~/.config/headrace), for you alone to read. ' +
        'A certificate that is unknown here is shown with its fingerprint; once you have accepted it, no other will do. ' +
        'In scripts, set HEADRACE_URL and HEADRACE_TOKEN instead (and HEADRACE_CA_FILE, HEADRACE_PROJECT).',
    )
    .option('--no-browser', 'show an address to open elsewhere, and ask for the code from there')
    .example('headrace login https://ci.example.org', 'sign in with the browser of this machine')
    .example('headrace login https://ci.example.org --no-browser', 'sign in from a machine without one');

  add('logout [URL]', () => import('./logout.ts'))
    .summary('Sign out: revoke the token and forget it')
    .example('headrace logout', 'sign out of the server that you use');

  add('whoami', () => import('./whoami.ts'))
    .summary('Show who you are, and on which server')
    .example('headrace whoami');

  add('init', () => import('./init.ts'))
    .summary('Set up the project of this folder')
    .description(
      'Signs in where no server is known yet, finds the repository at a forge that you have connected, or connects one, and ' +
        'makes the project with its key, its hook and its statuses, or connects the one that is there. Writes a first .headrace.toml if there is none, makes its suites, and shows the first build. ' +
        'It goes on where it stopped: what is there is not made again.',
    )
    .option('-y, --yes', 'never prompt, and fail if input is required')
    .option('--forge <FORGE>', 'which of your forges, by identifier or address; none: the key is installed by hand')
    .example('headrace init', 'in a clone of the repository')
    .example('headrace init --forge git.example.org', 'where several forges fit')
    .example('headrace init --yes', 'in a script, with a forge that is connected');

  add('projects', () => import('./projects.ts'))
    .summary('List the projects that you may see')
    .example('headrace projects --json', 'the same for a program');

  add('status [REF]', () => import('./status.ts'))
    .summary('Show how the newest build of a branch stands')
    .example('headrace status', 'of the branch that is checked out')
    .example('headrace status v1.2', 'of a tag');

  add('builds', () => import('./builds.ts'))
    .summary('List the newest builds of the project')
    .option('--limit <N>', 'how many (default 20)', limit)
    .example('headrace builds --limit 100', 'the newest hundred');

  add('run [REF]', () => import('./run.ts'))
    .summary('Ask for a build')
    .option('-f, --follow', following)
    .addOption(wait)
    .addOption(repeated('--suite <SUITE>', 'only this suite'))
    .addOption(repeated('--variable <NAME=VALUE>', 'with this variable, which is no secret'))
    .example('headrace run -f', 'build the branch that is checked out, and wait for it')
    .example('headrace run v1.2 --suite unit', 'one suite on a tag')
    .example('headrace run --variable STAGE=test', 'with a variable of its own');

  add('watch [REQUEST]', () => import('./watch.ts'))
    .summary('Follow a build request until it is over')
    .option('-f, --follow', 'exit with its result')
    .addOption(wait)
    .example('headrace watch', 'the newest of the branch that is checked out')
    .example('headrace watch --wait', 'wait for it in a script');

  add('logs <BUILD>', () => import('./logs.ts'))
    .summary('Print the log of a build')
    .option('-f, --follow', 'go on until the build is over')
    .addOption(wait)
    .example('headrace logs 912345678901234567', 'by the identifier that status shows')
    .option('--service <NAME>', 'of a service that runs beside the build')
    .example('headrace logs unit -f', 'of a suite, in the newest build of the branch')
    .example('headrace logs unit --service db', 'of a service of it');

  add('artifacts <BUILD> [PATTERN]', () => import('./artifacts.ts'))
    .summary('List or fetch the files kept of a build')
    .description(
      'A pattern is written as in a suite: dist for all files in it, *.log, **/*.xml. Each file is compared with its ' +
        'digest. No link that is below DIR already is followed.',
    )
    .option('-o, --output <DIR>', 'fetch them, to their paths below DIR')
    .example('headrace artifacts unit', 'of a suite, in the newest build of the branch')
    .example('headrace artifacts unit dist -o out', 'everything in dist, to out/dist');

  add('shell <BUILD>', () => import('./shell.ts'))
    .summary('Open a shell in the files of a failed build')
    .description(
      'The files, variables and software are those that the build had when it ended, on the runner that ran it, with the ' +
        'isolation and the limits of a build. What you change there is gone with the shell. It ends with exit, after an hour in ' +
        'which nothing happens, and with Enter ~ . where nothing answers any more. Its exit status is that of the shell.',
    )
    .example('headrace shell 912345678901234567', 'look around where it failed')
    .example('headrace shell unit < commands.sh', 'run something there');

  add('explain [REQUEST]', () => import('./explain.ts'))
    .summary('Tell why each suite did or did not run')
    .example('headrace explain main', 'for the newest build request of a branch');

  add('cancel [REQUEST]', () => import('./cancel.ts'))
    .summary('Cancel a build request')
    .example('headrace cancel', 'the newest of the branch that is checked out');

  add('approve [BUILD]', () => import('./approve.ts'))
    .summary('Approve a build, request or deploy that waits')
    .description(
      'BUILD is a build, or the identifier of a build request or a deploy. Without it, what waits in the newest request of ' +
        'the branch that is checked out is approved, or else the deploy of the project that waits.',
    )
    .example('headrace approve', 'what waits on this branch')
    .example('headrace approve ship', 'the build of a suite');

  add('restart <BUILD>', () => import('./restart.ts'))
    .summary('Make another attempt at one build')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace restart unit -f', 'of a suite, in the newest build of the branch');

  add('rerun [REQUEST]', () => import('./rerun.ts'))
    .summary('Run a finished build request again')
    .option('--failed', 'only the suites that did not pass')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace rerun --failed -f', 'run what failed again, and wait for it');

  add('deploy <STRATEGY> [COMMIT]', () => import('./deploy.ts'))
    .summary('Deploy a commit, or the newest that passed')
    .option('--rollback', 'go back to what was deployed before the last')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace deploy production -f', 'deploy, and wait for the end of it');

  add('dependency upload <NAME> <FILE>', () => import('./dependency-upload.ts'))
    .summary('Upload source, and follow its compile')
    .option('-f, --follow', 'this is done anyway')
    .addOption(wait)
    .example('headrace dependency upload lua lua-5.4.7.tar.gz');

  add('apply', () => import('./apply.ts'))
    .summary('Make the project what a file says')
    .description(
      'The project is the one that the folder or --project says; in a folder that is no git repository, the one that the ' +
        'file names. Every variable of your environment that the file takes is shown. One that the project did not have ' +
        'from there before is sent only if you agree, or say so with --from-env.',
    )
    .option('-f, --file <FILE>', 'a document in TOML, YAML or JSON; - is standard input')
    .option('--dry-run', 'only show the difference')
    .option('--check', 'only show the difference, and exit 1 if there is one')
    .option('--prune', 'delete what the file does not have')
    .option('--create', 'make the project that the file names, if you have none of that name')
    .addOption(repeated('--from-env <NAME>', 'take NAME of the environment where the file says so'))
    .example('headrace apply -f headrace.toml --dry-run', 'see what would change')
    .example('headrace apply -f headrace.toml', 'change it, all or nothing');

  add('check [FILE]', () => import('./check.ts'))
    .summary('Check the file of a repository, without a server')
    .description('The file is .headrace.toml, or else .headrace.yml. Exit status 1 where it has a mistake.')
    .example('headrace check', 'before you push')
    .example('headrace check ci/headrace.yml', 'another file');

  add('export', () => import('./export.ts'))
    .summary('Print the project as a file for apply')
    .option('--format <FORMAT>', 'toml (default), yaml or json')
    .example('headrace export > headrace.toml', 'begin with what is there');

  add('exec <SUITE>', () => import('./exec.ts'))
    .summary('Run a suite here, on the files as they are')
    .description(
      'Everything that is in the working tree is there, also what is not committed or ignored by git. Command, launch ' +
        'commands, image and dependencies are those of the server; software is kept under $XDG_CACHE_HOME/headrace.',
    )
    .option('--image <IMAGE>', 'in this image instead of the suite’s')
    .option('--variant <V>', 'of a suite with a matrix, such as "CC=gcc" (default: the first)')
    .option('--with-variables', 'with the variables of the suite and the project, secrets too')
    .option('--write', 'let it change the files; otherwise it changes a view of them')
    .option('--offline', 'without a network')
    .example('headrace exec unit', 'the suite on the working tree, in the sandbox of builds')
    .example('headrace exec unit --image docker.io/library/debian:13', 'in another image');

  add('completion', async () => {
    const { completionsFor } = await import('./completion.ts');
    return { run: async ({ screen }: Call, of: string) => void screen.out.write(completionsFor(program, of)) };
  })
    .summary('Print completions for bash, zsh or fish')
    .addArgument(new Argument('<SHELL>').choices(shells).argParser(shell))
    .example('source <(headrace completion bash)', 'for this shell, in ~/.bashrc for every one');

  return program
    .everywhere(
      new Option('--project <NAME>', 'the project, by its name or identifier, instead of the folder’s'),
      new Option('--json', 'answer in JSON'),
      new Option('--plain', 'no colours, and no lines that change'),
      new Option('--ca-file <FILE>', 'the certificates that the server’s is checked against'),
      new Option('-v, --verbose', 'say more about what went wrong'),
    )
    .addHelpText('after', 'More: headrace help COMMAND; for who runs a server: headrace help server');
}
