import { Argument, Option } from 'commander';
import { Call } from './call.ts';
import { Command, only, repeated } from './program.ts';

/** The export of a command's module. It gets the arguments in their order. */
type Load = () => Promise<{ run: (call: Call<never>, ...args: never[]) => Promise<number | void> }>;

/** For every command that starts something, or shows something that ends. */
const following = 'follow it until it ends, and exit with its result';
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
      'The token is stored in servers.json under $XDG_CONFIG_HOME/headrace (~/.config/headrace), readable only by you. ' +
        'An unknown certificate is shown with its fingerprint. Once you have accepted it, no other is accepted. ' +
        'In scripts, set HEADRACE_URL and HEADRACE_TOKEN instead (and HEADRACE_CA_FILE, HEADRACE_PROJECT).',
    )
    .option('--no-browser', 'show an address to open elsewhere, and prompt for its code')
    .example('headrace login https://ci.example.org', 'sign in with the browser of this machine')
    .example('headrace login https://ci.example.org --no-browser', 'sign in from a machine without one');

  add('logout [URL]', () => import('./logout.ts'))
    .summary('Sign out: revoke the token and forget it')
    .example('headrace logout', 'sign out of the server that you use');

  add('whoami', () => import('./whoami.ts'))
    .summary('Show your account and server')
    .example('headrace whoami');

  add('init', () => import('./init.ts'))
    .summary('Set up the project of this folder')
    .description(
      'Signs in if no server is known yet, finds the repository at a connected forge, or connects a forge, and ' +
        'creates the project with its key, hook and statuses, or connects an existing one. Writes a first .headrace.toml if there is none, makes its suites, and shows the first build. ' +
        'You can run it again: it continues where it stopped.',
    )
    .option('-y, --yes', 'never prompt, and fail if input is required')
    .option('--forge <FORGE>', 'which of your forges, by identifier or address; none: the key is installed by hand')
    .example('headrace init', 'in a clone of the repository')
    .example('headrace init --forge git.example.org', 'if several forges match')
    .example('headrace init --yes', 'in a script, with a connected forge');

  add('projects', () => import('./projects.ts'))
    .summary('List the projects you can see')
    .example('headrace projects --json', 'the same as JSON');

  add('status [REF]', () => import('./status.ts'))
    .summary('Show the status of the newest build of a branch')
    .example('headrace status', 'of the checked-out branch')
    .example('headrace status v1.2', 'of a tag');

  add('builds', () => import('./builds.ts'))
    .summary('List the newest builds of the project')
    .option('--limit <N>', 'how many (default 20)', limit)
    .example('headrace builds --limit 100', 'the newest 100');

  add('run [REF]', () => import('./run.ts'))
    .summary('Request a build')
    .option('-f, --follow', following)
    .addOption(wait)
    .addOption(repeated('--suite <SUITE>', 'only this suite'))
    .addOption(repeated('--set <N=V>', 'with NAME=VALUE of a parameter of the project'))
    .addOption(repeated('--variable <N=V>', 'with this variable (not for secrets)'))
    .option('--no-reuse', 'also run suites that passed with the same inputs')
    .example('headrace run -f', 'build the checked-out branch, and wait for it')
    .example('headrace run v1.2 --suite unit', 'one suite on a tag')
    .example('headrace run --set STAGE=test', 'with an answer to what the project asks')
    .example('headrace run --variable DEBUG=1', 'with a variable of its own');

  add('watch [REQUEST]', () => import('./watch.ts'))
    .summary('Follow a build request until it ends')
    .option('-f, --follow', 'exit with its result')
    .addOption(wait)
    .example('headrace watch', 'the newest of the checked-out branch')
    .example('headrace watch --wait', 'wait for it in a script');

  add('logs <BUILD>', () => import('./logs.ts'))
    .summary('Print the log of a build')
    .option('-f, --follow', 'follow until the build ends')
    .addOption(wait)
    .example('headrace logs 912345678901234567', 'by the identifier from headrace status')
    .option('--service <NAME>', 'of a service of the build')
    .example('headrace logs unit -f', 'of a suite, in the newest build of the branch')
    .example('headrace logs unit --service db', 'of a service of it');

  add('grep <EXPRESSION>', () => import('./grep.ts'))
    .summary('Find the builds whose log has a line that matches')
    .description(
      'EXPRESSION is a regular expression in the syntax of RE2. The newest builds come first, each with its first such ' +
        'line. If no log has one, the exit status is 1.',
    )
    .option('--suite <SUITE>', 'only in builds of this suite')
    .option('--limit <N>', 'how many builds (default 100)', limit)
    .example("headrace grep 'connection.refused'", 'in the logs of all builds of the project')
    .example("headrace grep 'timed.out' --suite unit", 'in those of a suite');

  add('summary <BUILD>', () => import('./summary.ts'))
    .summary('Print the summary that a build wrote')
    .description('It is Markdown. A build that wrote none has an empty one.')
    .example('headrace summary unit', 'of a suite, in the newest build of the branch')
    .example('headrace summary 912345678901234567 --json', 'with the identifier of the build');

  add('artifacts <BUILD> [PATTERN]', () => import('./artifacts.ts'))
    .summary('List or download the artifacts of a build')
    .description(
      'Patterns are the same as in a suite: dist for all files in it, *.log, **/*.xml. Each file is checked against its ' +
        'digest. Links that already exist below DIR are not followed.',
    )
    .option('-o, --output <DIR>', 'download them to their paths below DIR')
    .example('headrace artifacts unit', 'of a suite, in the newest build of the branch')
    .example('headrace artifacts unit dist -o out', 'all files in dist, to out/dist');

  add('shell <BUILD>', () => import('./shell.ts'))
    .summary('Open a shell in the files of a failed build')
    .description(
      'You get the files, variables and software of the build as it ended, on the runner that ran it, with the ' +
        'isolation and limits of a build. Your changes are deleted with the shell. It ends with exit, after an hour ' +
        'without activity, and with Enter ~ . if it no longer responds. The exit status is the shell’s.',
    )
    .example('headrace shell 912345678901234567', 'inspect the failed build')
    .example('headrace shell unit < commands.sh', 'run something there');

  add('why [BUILD]', () => import('./why.ts'))
    .summary('Show in short why a build failed')
    .description(
      'The failed step and tests, the lines of the log that no passed run has, the changes since the last one that ' +
        'passed, and a command to reproduce it. Without BUILD, it is the newest build of the checked-out branch that ' +
        'did not pass.',
    )
    .example('headrace why', 'of the checked-out branch')
    .example('headrace why unit --json', 'of a suite, for a program');

  add('explain [REQUEST]', () => import('./explain.ts'))
    .summary('Show why each suite ran or did not run')
    .example('headrace explain main', 'for the newest build request of a branch');

  add('cancel [REQUEST]', () => import('./cancel.ts'))
    .summary('Cancel a build request')
    .example('headrace cancel', 'the newest of the checked-out branch');

  add('approve [BUILD]', () => import('./approve.ts'))
    .summary('Approve a waiting build, request or deploy')
    .description(
      'BUILD is a build, or the identifier of a build request or a deploy. Without it, the waiting build in the newest request of ' +
        'the checked-out branch is approved, or else the waiting deploy of the project.',
    )
    .example('headrace approve', 'the waiting build of this branch')
    .example('headrace approve ship', 'the build of a suite');

  add('restart <BUILD>', () => import('./restart.ts'))
    .summary('Run one build again as a new attempt')
    .option('--from-step <NAME>', 'start at this step, with the files that the steps before it left')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace restart unit -f', 'of a suite, in the newest build of the branch')
    .example('headrace restart unit --from-step test', 'without the steps before test');

  add('rerun [REQUEST]', () => import('./rerun.ts'))
    .summary('Run a finished build request again')
    .option('--failed', 'only suites that did not pass')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace rerun --failed -f', 'rerun failed suites, and wait for them');

  add('deploy <STRATEGY> [COMMIT]', () => import('./deploy.ts'))
    .summary('Deploy a commit, or the newest that passed')
    .option('--rollback', 'deploy the commit before the last one again')
    .option('-f, --follow', following)
    .addOption(wait)
    .example('headrace deploy production -f', 'deploy, and wait until it ends');

  add('dependency upload <NAME> <FILE>', () => import('./dependency-upload.ts'))
    .summary('Upload source, and follow its compile')
    .option('-f, --follow', 'always on')
    .addOption(wait)
    .example('headrace dependency upload lua lua-5.4.7.tar.gz');

  add('apply', () => import('./apply.ts'))
    .summary('Apply a file’s settings to the project')
    .description(
      '--project or the folder selects the project; outside a git repository, the name in the ' +
        'file does. Every variable that the file takes from your environment is shown. A variable that the project did not take ' +
        'from there before is only sent if you agree or pass --from-env.',
    )
    .option('-f, --file <FILE>', 'a document in TOML, YAML or JSON; - is standard input')
    .option('--dry-run', 'show the difference, change nothing')
    .option('--check', 'show the difference, and exit 1 if there is one')
    .option('--prune', 'delete everything that the file lacks')
    .option('--create', 'create the project named in the file if you have none of that name')
    .addOption(repeated('--from-env <NAME>', 'send NAME from your environment if the file asks for it'))
    .example('headrace apply -f headrace.toml --dry-run', 'see what would change')
    .example('headrace apply -f headrace.toml', 'apply it, all or nothing');

  add('check [FILE]', () => import('./check.ts'))
    .summary('Check a repository’s file, without a server')
    .description(
      'The default is .headrace.toml, or else .headrace.yml. The exit status is 1 if the file has a mistake.',
    )
    .option('--resolved', 'print the file with every suite whole, without defaults, templates and extends')
    .example('headrace check', 'before you push')
    .example('headrace check ci/headrace.yml', 'another file')
    .example('headrace check --resolved', 'what the suites come to');

  add('import [FILE...]', () => import('./import.ts'))
    .summary('Import another CI’s files, without a server')
    .description(
      'Reads files of GitHub Actions, GitLab CI, Woodpecker, Drone and Travis CI. The default is all that the repository ' +
        'has. What cannot be carried over is a comment in the file, and a line on standard error.',
    )
    .option('--force', 'replace a .headrace.toml that is there')
    .example('headrace import', 'all files of the repository')
    .example('headrace import .github/workflows/ci.yml', 'one of them');

  add('export', () => import('./export.ts'))
    .summary('Print the project as a file for apply')
    .option('--format <FORMAT>', 'toml (default), yaml or json')
    .example('headrace export > headrace.toml', 'start from the present settings');

  add('exec <SUITE>', () => import('./exec.ts'))
    .summary('Run a suite on this machine, on your working tree')
    .description(
      'The suite sees the whole working tree, including uncommitted and ignored files. Command, launch ' +
        'commands, image and dependencies come from the server; software is cached under $XDG_CACHE_HOME/headrace.',
    )
    .option('--image <IMAGE>', 'in this image instead of the suite’s')
    .option('--variant <V>', 'of a suite with a matrix, such as "CC=gcc" (default: the first)')
    .option('--with-variables', 'with the variables of the suite and the project, secrets too')
    .option('--write', 'write to your files; without it, the suite changes a copy-on-write view')
    .option('--offline', 'without a network')
    .example('headrace exec unit', 'the suite on the working tree, in the sandbox of builds')
    .example('headrace exec unit --image docker.io/library/debian:13', 'in another image');

  add('completion', async () => {
    const { completionsFor } = await import('./completion.ts');
    return {
      run: async ({ screen }: Call, of: string) => {
        const script = completionsFor(program, of);
        if (screen.isJson) screen.json({ shell: of, script });
        else screen.out.write(script);
      },
    };
  })
    .summary('Print completions for bash, zsh or fish')
    .addArgument(new Argument('<SHELL>').choices(shells).argParser(shell))
    .example('source <(headrace completion bash)', 'for this shell; put it into ~/.bashrc for all');

  return program
    .everywhere(
      new Option('--project <NAME>', 'the project, by its name or identifier, instead of the folder’s'),
      new Option('--json', 'print JSON'),
      new Option('--plain', 'no colours and no live-updating lines'),
      new Option('--ca-file <FILE>', 'certificate authorities to check the server against'),
      new Option('-v, --verbose', 'show more about errors'),
    )
    .addHelpText('after', 'More: headrace help COMMAND; for operators: headrace help server');
}
