import type { Command, Flag } from './command.ts';

/** Every command for developers, in the order of the help. What they do is loaded when they are called. */

/** Of every command that begins something or looks at something that ends. */
const follow: Flag = {
  name: 'follow',
  short: 'f',
  also: 'wait',
  about: 'show what happens until it is over, and exit with its result',
};
/** Of those that do so anyway. */
const always: Flag = { ...follow, about: 'this is done anyway' };

export const catalog: readonly Command[] = [
  {
    words: 'login',
    args: ['URL'],
    about: 'Sign in to a server',
    flags: [{ name: 'no-browser', about: 'show an address to open elsewhere, and ask for the code from there' }],
    examples: [
      ['headrace login https://ci.example.org', 'sign in with the browser of this machine'],
      ['headrace login https://ci.example.org --no-browser', 'sign in from a machine without one'],
    ],
    details:
      'The token is kept in servers.json under $XDG_CONFIG_HOME/headrace (~/.config/headrace), for you alone to read. ' +
      'A certificate that is unknown here is shown with its fingerprint; once you have accepted it, no other will do. ' +
      'In scripts, set HEADRACE_URL and HEADRACE_TOKEN instead (and HEADRACE_CA_FILE, HEADRACE_PROJECT).',
    load: () => import('./login.ts'),
  },
  {
    words: 'logout',
    args: ['URL?'],
    about: 'Sign out: revoke the token and forget it',
    flags: [],
    examples: [['headrace logout', 'sign out of the server that you use']],
    load: () => import('./logout.ts'),
  },
  {
    words: 'whoami',
    args: [],
    about: 'Show who you are, and on which server',
    flags: [],
    examples: [['headrace whoami', '']],
    load: () => import('./whoami.ts'),
  },
  {
    words: 'projects',
    args: [],
    about: 'List the projects that you may see',
    flags: [],
    examples: [['headrace projects --json', 'the same for a program']],
    load: () => import('./projects.ts'),
  },
  {
    words: 'status',
    args: ['REF?'],
    about: 'Show how the newest build of a branch stands',
    flags: [],
    examples: [
      ['headrace status', 'of the branch that is checked out'],
      ['headrace status v1.2', 'of a tag'],
    ],
    load: () => import('./status.ts'),
  },
  {
    words: 'builds',
    args: [],
    about: 'List the newest builds of the project',
    flags: [{ name: 'limit', value: 'N', about: 'how many (default 20)' }],
    examples: [['headrace builds --limit 100', 'the newest hundred']],
    load: () => import('./builds.ts'),
  },
  {
    words: 'run',
    args: ['REF?'],
    about: 'Ask for a build',
    flags: [follow, { name: 'suite', value: 'SUITE', isRepeatable: true, about: 'only this suite; can be repeated' }],
    examples: [
      ['headrace run -f', 'build the branch that is checked out, and wait for it'],
      ['headrace run v1.2 --suite unit', 'one suite on a tag'],
    ],
    load: () => import('./run.ts'),
  },
  {
    words: 'watch',
    args: ['REQUEST?'],
    about: 'Follow a build request until it is over',
    flags: [{ ...follow, about: 'exit with its result' }],
    examples: [
      ['headrace watch', 'the newest of the branch that is checked out'],
      ['headrace watch --wait', 'wait for it in a script'],
    ],
    load: () => import('./watch.ts'),
  },
  {
    words: 'logs',
    args: ['BUILD'],
    about: 'Print the log of a build',
    flags: [{ ...follow, about: 'go on until the build is over' }],
    examples: [
      ['headrace logs 912345678901234567', 'by the identifier that status shows'],
      ['headrace logs unit -f', 'of a suite, in the newest build of the branch'],
    ],
    load: () => import('./logs.ts'),
  },
  {
    words: 'artifacts',
    args: ['BUILD', 'PATTERN?'],
    about: 'List or fetch the files kept of a build',
    flags: [{ name: 'output', short: 'o', value: 'DIR', about: 'fetch them, to their paths below DIR' }],
    examples: [
      ['headrace artifacts unit', 'of a suite, in the newest build of the branch'],
      ['headrace artifacts unit dist -o out', 'everything in dist, to out/dist'],
    ],
    details:
      'A pattern is written as in a suite: dist for all files in it, *.log, **/*.xml. Each file is compared with its ' +
      'digest. No link that is below DIR already is followed.',
    load: () => import('./artifacts.ts'),
  },
  {
    words: 'shell',
    args: ['BUILD'],
    about: 'Open a shell in the files of a failed build',
    flags: [],
    examples: [
      ['headrace shell 912345678901234567', 'look around where it failed'],
      ['headrace shell unit < commands.sh', 'run something there'],
    ],
    details:
      'The files, variables and software are those that the build had when it ended, on the runner that ran it, with the ' +
      'isolation and the limits of a build. What you change there is gone with the shell. It ends with exit, after an hour in ' +
      'which nothing happens, and with Enter ~ . where nothing answers any more. Its exit status is that of the shell.',
    load: () => import('./shell.ts'),
  },
  {
    words: 'explain',
    args: ['REQUEST?'],
    about: 'Tell why each suite did or did not run',
    flags: [],
    examples: [['headrace explain main', 'for the newest build request of a branch']],
    load: () => import('./explain.ts'),
  },
  {
    words: 'cancel',
    args: ['REQUEST?'],
    about: 'Cancel a build request',
    flags: [],
    examples: [['headrace cancel', 'the newest of the branch that is checked out']],
    load: () => import('./cancel.ts'),
  },
  {
    words: 'rerun',
    args: ['REQUEST?'],
    about: 'Run a finished build request again',
    flags: [{ name: 'failed', about: 'only the suites that did not pass' }, follow],
    examples: [['headrace rerun --failed -f', 'run what failed again, and wait for it']],
    load: () => import('./rerun.ts'),
  },
  {
    words: 'deploy',
    args: ['STRATEGY', 'COMMIT?'],
    about: 'Deploy a commit, or the newest that passed',
    flags: [follow],
    examples: [['headrace deploy production -f', 'deploy, and wait for the end of it']],
    load: () => import('./deploy.ts'),
  },
  {
    words: 'dependency upload',
    args: ['NAME', 'FILE'],
    about: 'Upload source, and follow its compile',
    flags: [always],
    examples: [['headrace dependency upload lua lua-5.4.7.tar.gz', '']],
    load: () => import('./dependency-upload.ts'),
  },
  {
    words: 'apply',
    args: [],
    about: 'Make the project what a file says',
    flags: [
      { name: 'file', short: 'f', value: 'FILE', about: 'a document in TOML, YAML or JSON; - is standard input' },
      { name: 'dry-run', about: 'only show the difference' },
      { name: 'check', about: 'only show the difference, and exit 1 if there is one' },
      { name: 'prune', about: 'delete what the file does not have' },
      { name: 'create', about: 'make the project that the file names, if you have none of that name' },
      {
        name: 'from-env',
        value: 'NAME',
        isRepeatable: true,
        about: 'take NAME of the environment where the file says so; can be repeated',
      },
    ],
    examples: [
      ['headrace apply -f headrace.toml --dry-run', 'see what would change'],
      ['headrace apply -f headrace.toml', 'change it, all or nothing'],
    ],
    details:
      'The project is the one that the folder or --project says; in a folder that is no git repository, the one that the ' +
      'file names. Every variable of your environment that the file takes is shown. One that the project did not have ' +
      'from there before is sent only if you agree, or say so with --from-env.',
    load: () => import('./apply.ts'),
  },
  {
    words: 'export',
    args: [],
    about: 'Print the project as a file for apply',
    flags: [{ name: 'format', value: 'FORMAT', about: 'toml (default), yaml or json' }],
    examples: [['headrace export > headrace.toml', 'begin with what is there']],
    load: () => import('./export.ts'),
  },
  {
    words: 'exec',
    args: ['SUITE'],
    about: 'Run a suite here, on the files as they are',
    flags: [
      { name: 'image', value: 'IMAGE', about: 'in this image instead of the suite’s' },
      { name: 'variant', value: 'V', about: 'of a suite with a matrix, such as "CC=gcc" (default: the first)' },
      { name: 'with-variables', about: 'with the variables of the suite, secrets too' },
      { name: 'write', about: 'let it change the files; otherwise it changes a view of them' },
      { name: 'offline', about: 'without a network' },
    ],
    examples: [
      ['headrace exec unit', 'the suite on the working tree, in the sandbox of builds'],
      ['headrace exec unit --image docker.io/library/debian:13', 'in another image'],
    ],
    details:
      'Everything that is in the working tree is there, also what is not committed or ignored by git. Command, launch ' +
      'commands, image and dependencies are those of the server; software is kept under $XDG_CACHE_HOME/headrace.',
    load: () => import('./exec.ts'),
  },
  {
    words: 'completion',
    args: ['SHELL'],
    about: 'Print completions for bash, zsh or fish',
    flags: [],
    examples: [['source <(headrace completion bash)', 'for this shell, in ~/.bashrc for every one']],
    load: () => import('./completion.ts'),
  },
];
