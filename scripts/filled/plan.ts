/** The work of a team in a week: its projects, people, suites and commits. `week.ts` lets it happen. */

export interface SuitePlan {
  name: string;
  /** Fields of the suite. `needs` has names. */
  fields: Record<string, string>;
  needs?: string[];
  /** Its steps, with their part of the time. */
  steps: { name: string; command: string; part: number; says: Says }[];
  seconds: number;
  /** How often it fails by the commit's fault, and how often for no reason. */
  fails: number;
  flaky?: number;
  tests?: string[];
  artifacts?: Record<string, number>;
}

export interface ProjectPlan {
  name: string;
  description: string;
  owner: string;
  people: string[];
  pushesADay: number;
  suites: SuitePlan[];
  subjects: string[];
  branches: string[];
  /** A schedule at this hour. */
  nightly?: number;
  /** A deploy by this suite after some commits that passed. */
  ships?: string;
  webhooks?: ('heard' | 'refused')[];
}

export type Says = (roll: () => number, failed: boolean) => string[];

export const people = ['ada', 'joris', 'lin', 'noor', 'tomas'].map((name) => `${name}@example.org`);
export const names: Record<string, string> = {
  'ada@example.org': 'Ada Moreau',
  'joris@example.org': 'Joris Prins',
  'lin@example.org': 'Lin Okafor',
  'noor@example.org': 'Noor Haddad',
  'tomas@example.org': 'Tomás Silva',
};

/** The machines that build. One is away since some hours. */
export const machines = [
  { name: 'builder-1', builds: 4, tags: '', awayHours: 0 },
  { name: 'builder-2', builds: 3, tags: 'large', awayHours: 0 },
  { name: 'mac-mini', builds: 2, tags: 'macos', awayHours: 5 },
];
const [ada = '', joris = '', lin = '', noor = '', tomas = ''] = people;

const green = (text: string): string => `\u001b[32m${text}\u001b[0m`;
const red = (text: string): string => `\u001b[31m${text}\u001b[0m`;
const faint = (text: string): string => `\u001b[2m${text}\u001b[0m`;
const upTo = (roll: () => number, most: number): number => Math.ceil(roll() * most);

const installs =
  (what: string, packages: string[]): Says =>
  (roll) => [
    `::group::${what}`,
    ...packages.map((name) => `added ${name}@${upTo(roll, 9)}.${upTo(roll, 20)}.${upTo(roll, 9)}`),
    `added ${200 + upTo(roll, 90)} packages, audited ${400 + upTo(roll, 90)} in ${upTo(roll, 9)}s`,
    '::endgroup::',
  ];
const compiles =
  (tool: string, files: string[], failure: string[]): Says =>
  (roll, failed) => [
    ...files.flatMap((file) => [
      `${faint(tool)} ${file}`,
      ...(roll() < 0.1 ? [`${file}:${upTo(roll, 300)}: warning: unused variable 'level'`] : []),
    ]),
    ...(failed ? failure.map((line) => (line.includes('error') ? red(line) : line)) : ['linked in 1.4 s']),
  ];
const testsOf =
  (count: number, failure: string[]): Says =>
  (roll, failed) => [
    '--- unit',
    ...Array.from(
      { length: count },
      (_, at) => `${green('✔')} case ${at + 1} of readings and levels ${faint(`(${upTo(roll, 90)} ms)`)}`,
    ),
    ...(failed
      ? [red('✖ averages the readings of an hour'), ...failure, '', red(`1 failed, ${count} passed`)]
      : [green(`${count} passed`)]),
  ];
const plain =
  (...lines: string[]): Says =>
  (_, failed) =>
    failed ? [...lines.slice(0, -1), red(`error: ${lines.at(-1) ?? ''}: exit status 1`)] : lines;

const assertion = [
  '    AssertionError [ERR_ASSERTION]: expected 412, got 411.83',
  '        at average (src/average.ts:41:11)',
  '        at TestContext.<anonymous> (test/average.test.ts:17:3)',
];
const rustError = [
  'error[E0382]: borrow of moved value: `gate`',
  '  --> src/valves.rs:88:19',
  '   |',
  '86 |     close(gate);',
  '   |           ---- value moved here',
  '88 |     open_after(&gate);',
  '   |                ^^^^^ value borrowed here after move',
  'error: could not compile `lock-control` due to 1 previous error',
];
const goPanic = [
  'panic: runtime error: index out of range [3] with length 3',
  '',
  'goroutine 71 [running]:',
  'example.org/weir/level.(*Reader).Next(...)',
  '        /build/level/reader.go:52',
  'FAIL    example.org/weir/level  0.412s',
];
const npm = ['ajv', 'express', 'gauge-reader', 'level-math', 'pg', 'pino', 'undici', 'zod'];
const gauges = [
  'reads the gauge',
  'keeps what it has read',
  'leaves out readings below zero',
  'averages the readings of an hour',
  'answers within a second',
  'survives a broken line',
  'rounds to millimetres',
  'remembers the last flood',
  'reads in two time zones',
  'warns at the mark',
];

const one = (name: string, seconds: number, fails: number, says: Says, more: Partial<SuitePlan> = {}): SuitePlan => ({
  name,
  seconds,
  fails,
  steps: [{ name: 'command', command: `make ${name.replaceAll(' ', '-')}`, part: 1, says }],
  ...more,
  fields: more.fields ?? {},
});

export const projects: ProjectPlan[] = [
  {
    name: 'river-gauge',
    description: 'Reads the gauges and keeps what they say.',
    owner: ada,
    people: [joris, lin],
    pushesADay: 5,
    branches: ['feature/hourly-average', 'fix/frozen-gauge', 'lin/telegraf', 'dependabot/undici-8'],
    subjects: [
      'Read the gauge every minute',
      'Keep readings for ten years',
      'Average over the hour',
      'Leave out readings below zero',
      'Tell a frozen gauge from a dry one',
      'Upgrade undici',
      'Write the readings in one transaction',
      'Name the gauge in each message',
    ],
    nightly: 2,
    ships: 'ship',
    webhooks: ['heard', 'refused'],
    suites: [
      one('lint', 24, 0.04, plain('oxlint src', '212 files, 0 warnings', 'oxfmt --check'), {
        fields: { 'cache[]': '~/.npm' },
      }),
      {
        name: 'unit tests',
        fields: {
          'matrix[0]': 'NODE=22,24,26',
          retries: '1',
          image: 'node:24',
          'reports[]': 'report/*.xml',
          'cache[]': '~/.npm',
        },
        seconds: 95,
        fails: 0.12,
        flaky: 0.06,
        tests: gauges,
        steps: [
          { name: 'install', command: 'npm ci', part: 0.25, says: installs('npm ci', npm) },
          {
            name: 'compile',
            command: 'npm run build',
            part: 0.2,
            says: compiles(
              'tsc',
              ['src/gauge.ts', 'src/average.ts', 'src/store.ts'],
              ['src/average.ts(41,3): error TS2322: Type string is not assignable to type number.'],
            ),
          },
          { name: 'test', command: 'npm test -- --reporter=junit', part: 0.55, says: testsOf(48, assertion) },
        ],
      },
      {
        name: 'with postgres',
        needs: ['lint'],
        fields: {
          'services[0][name]': 'db',
          'services[0][image]': 'postgres:17',
          'services[0][ready_port]': '5432',
          'reports[]': 'report/*.xml',
        },
        seconds: 170,
        fails: 0.06,
        tests: gauges.slice(0, 6).map((name) => `${name} in the database`),
        steps: [
          {
            name: 'migrate',
            command: 'npm run migrate',
            part: 0.2,
            says: plain('0001-readings', '0002-gauges', 'migrated'),
          },
          { name: 'test', command: 'npm run test:db', part: 0.8, says: testsOf(20, assertion) },
        ],
      },
      one('package', 40, 0.01, plain('river-gauge_4.2.0_amd64.deb', 'river-gauge_4.2.0_arm64.deb', 'packed'), {
        needs: ['unit tests', 'with postgres'],
        fields: { 'artifacts[]': 'dist/*' },
        artifacts: {
          'dist/river-gauge_4.2.0_amd64.deb': 90_000,
          'dist/river-gauge_4.2.0_arm64.deb': 88_000,
          'dist/coverage.html': 12_000,
        },
      }),
      one(
        'ship',
        60,
        0.08,
        plain('copy river-gauge_4.2.0 to gauge-1', 'copy river-gauge_4.2.0 to gauge-2', 'restarted'),
        {
          needs: ['package'],
          fields: { manual: '1', concurrency_group: 'production' },
        },
      ),
    ],
  },
  {
    name: 'harbour-web',
    description: 'The map of berths and the dues.',
    owner: ada,
    people: [noor, tomas],
    pushesADay: 6,
    branches: ['redesign', 'noor/map-tiles', 'fix/dues-rounding'],
    subjects: [
      'Show the berths on a map',
      'Remember the chosen harbour',
      'Print the harbour dues',
      'Load the tiles lazily',
      'Round the dues as the law says',
      'Use the new colours',
      'Sort harbours by distance',
    ],
    ships: 'publish',
    webhooks: ['heard'],
    suites: [
      one(
        'types',
        35,
        0.05,
        compiles(
          'tsc',
          ['src/map.tsx', 'src/dues.ts'],
          ["src/map.tsx(112,9): error TS2339: Property 'berth' does not exist on type 'Harbour'."],
        ),
      ),
      one('unit', 60, 0.07, testsOf(64, assertion), {
        tests: gauges.map((name) => name.replace('gauge', 'harbour')),
        fields: { 'reports[]': 'junit.xml' },
      }),
      one(
        'browser tests',
        310,
        0.06,
        testsOf(30, ['    Error: locator.click: Timeout 30000ms exceeded.', '        at test/map.spec.ts:31:22']),
        {
          flaky: 0.15,
          fields: {
            'matrix[]': 'BROWSER=chromium,firefox,webkit',
            retries: '2',
            'reports[]': 'results.xml',
            allow_failure: '0',
          },
          tests: [
            'opens the map',
            'zooms to the harbour',
            'prints the dues',
            'works on a phone',
            'works without script',
          ],
          artifacts: { 'traces/map.zip': 40_000 },
        },
      ),
      one('lighthouse', 80, 0.3, plain('performance 97', 'accessibility 100', 'performance 88 is below 90'), {
        fields: { allow_failure: '1' },
      }),
      one('publish', 45, 0.05, plain('uploaded 214 files', 'invalidated the cache'), {
        needs: ['types', 'unit', 'browser tests'],
        fields: { manual: '1', approval: '1' },
      }),
    ],
  },
  {
    name: 'lock-control',
    description: 'Opens and closes the gates, in this order.',
    owner: joris,
    people: [ada, lin],
    pushesADay: 3,
    branches: ['valves', 'joris/low-water'],
    subjects: [
      'Close the gates before the valves open',
      'Open both gates at low water',
      'Ask twice before a gate opens',
      'Log each move of a valve',
      'Borrow the gate, not take it',
    ],
    webhooks: ['refused'],
    suites: [
      one('clippy', 70, 0.08, compiles('Checking', ['gate v0.3.1', 'valves v0.2.0', 'lock-control v1.9.0'], rustError)),
      one(
        'test',
        180,
        0.12,
        testsOf(38, [
          "thread 'gates::both' panicked at src/gates.rs:41:9:",
          'assertion `left == right` failed',
          '  left: Open',
          ' right: Closed',
        ]),
        {
          fields: { 'reports[]': 'target/junit.xml', 'cache[]': 'target' },
          tests: [
            'closes before the valves open',
            'never opens both gates',
            'asks twice',
            'stops at an obstacle',
            'logs each move',
          ],
        },
      ),
      one(
        'release build',
        260,
        0.03,
        compiles('Compiling', ['gate v0.3.1', 'valves v0.2.0', 'lock-control v1.9.0'], rustError),
        {
          needs: ['clippy', 'test'],
          fields: { 'artifacts[]': 'target/release/lock-control', approval: '1' },
          artifacts: { 'target/release/lock-control': 150_000 },
        },
      ),
    ],
  },
  {
    name: 'pump-firmware',
    description: 'Firmware of the pumps, for three boards.',
    owner: lin,
    people: [ada, tomas],
    pushesADay: 3,
    branches: ['board-c', 'lin/second-pump'],
    subjects: [
      'Start the second pump at 80 %',
      'Count the hours of each pump',
      'Read the level in millimetres',
      'Sleep between two readings',
      'Debounce the float switch',
    ],
    suites: [
      one(
        'firmware',
        120,
        0.09,
        compiles(
          'CC',
          ['main.c', 'pump.c', 'level.c', 'uart.c'],
          [
            "level.c:77:14: error: 'LEVEL_MM' undeclared (first use in this function)",
            'make: *** [Makefile:31: level.o] Error 1',
          ],
        ),
        {
          fields: { 'matrix[0]': 'BOARD=a,b,c', 'matrix[1]': 'OPT=size,speed', 'artifacts[]': 'out/*.bin' },
          artifacts: { 'out/firmware.bin': 64_000 },
        },
      ),
      one(
        'simulation',
        420,
        0.05,
        testsOf(16, ['    level exceeded 4000 mm after 31 min', '        in sim/flood.py, line 88']),
        {
          needs: ['firmware'],
          flaky: 0.05,
          fields: { timeout: '1800', 'reports[]': 'sim/*.xml' },
          tests: ['flood of 1993', 'dry summer', 'power loss', 'second pump fails'],
        },
      ),
    ],
  },
  {
    name: 'tide-tables',
    description: 'Tables of the tides, a year ahead.',
    owner: ada,
    people: [noor],
    pushesADay: 1.2,
    nightly: 4,
    branches: ['next-year'],
    subjects: ['Take the tables of next year', 'Tell high water in local time', 'Correct the harmonics of Vlissingen'],
    suites: [
      one('tests', 55, 0.05, testsOf(25, ['E       assert 412 == 411', 'tests/test_harmonics.py:31: AssertionError']), {
        fields: { 'reports[]': 'junit.xml', 'matrix[]': 'PYTHON=3.12,3.13' },
        tests: ['high water', 'low water', 'leap second', 'local time'],
      }),
      one('compare with last year', 600, 0.35, plain('Delfzijl 2 mm', 'Vlissingen 3 mm', 'Hoek van Holland 19 mm'), {
        fields: { allow_failure: '1' },
      }),
    ],
  },
  {
    name: 'weir-api',
    description: 'Levels and forecasts, as JSON.',
    owner: joris,
    people: [ada, noor, tomas],
    pushesADay: 4,
    branches: ['forecasts', 'tomas/grpc', 'fix/reader-panic'],
    subjects: [
      'Forecast six hours ahead',
      'Answer in pages',
      'Close the reader when the line breaks',
      'Serve the forecast from memory',
      'Drop the old format',
    ],
    ships: 'deploy',
    webhooks: ['heard'],
    suites: [
      one('vet', 18, 0.03, plain('go vet ./...', 'staticcheck ./...')),
      {
        name: 'test',
        seconds: 85,
        fails: 0.14,
        flaky: 0.04,
        tests: [
          'TestReaderNext',
          'TestReaderClose',
          'TestForecast/six_hours',
          'TestForecast/empty',
          'TestPages',
          'TestBrokenLine',
        ],
        fields: {
          'services[0][name]': 'redis',
          'services[0][image]': 'redis:7',
          'services[1][name]': 'db',
          'services[1][image]': 'postgres:17',
          'reports[]': 'report.xml',
        },
        steps: [
          {
            name: 'download',
            command: 'go mod download',
            part: 0.2,
            says: installs('go mod download', [
              'github.com/jackc/pgx',
              'github.com/redis/go-redis',
              'google.golang.org/grpc',
            ]),
          },
          { name: 'test', command: 'go test -race ./...', part: 0.8, says: testsOf(31, goPanic) },
        ],
      },
      one(
        'image',
        130,
        0.02,
        plain('FROM debian:trixie-slim', 'COPY weir /usr/bin/weir', 'pushed registry.example.org/weir'),
        { needs: ['vet', 'test'] },
      ),
      one('deploy', 50, 0.1, plain('weir-1 updated', 'weir-2 updated', 'weir-2 does not answer'), {
        needs: ['image'],
        fields: { manual: '1' },
      }),
    ],
  },
  {
    name: 'survey-app',
    description: 'Soundings from the boat.',
    owner: noor,
    people: [ada],
    pushesADay: 2,
    branches: ['offline', 'noor/charts'],
    subjects: [
      'Keep soundings without a network',
      'Draw the chart in the dark',
      'Ask for the location only once',
      'Save power on the boat',
    ],
    suites: [
      one(
        'android',
        380,
        0.1,
        compiles(
          '> Task',
          [':app:compileKotlin', ':app:mergeResources', ':app:assemble'],
          ['e: Chart.kt: (53, 17): error: Unresolved reference: depth'],
        ),
        { artifacts: { 'app/survey.apk': 120_000 }, fields: { 'artifacts[]': 'app/*.apk' } },
      ),
      one(
        'ios',
        500,
        0.1,
        compiles(
          'CompileSwift',
          ['Chart.swift', 'Sounding.swift'],
          ['Chart.swift:53:17: error: cannot find depth in scope'],
        ),
        { fields: { 'tags[]': 'macos' } },
      ),
      one('tests', 90, 0.05, testsOf(22, assertion), {
        tests: ['keeps soundings', 'draws the chart', 'asks once'],
        fields: { 'reports[]': 'build/*.xml' },
      }),
    ],
  },
  {
    name: 'levee-docs',
    description: 'The handbook.',
    owner: ada,
    people: [joris, lin, noor, tomas],
    pushesADay: 1.5,
    branches: ['spelling'],
    subjects: ['Describe the high-water plan', 'Correct spelling', 'Add the telephone numbers'],
    suites: [
      one('links', 30, 0.1, plain('312 links', 'https://example.org/plan answers 404')),
      one('html', 20, 0.02, plain('wrote 48 pages'), {
        artifacts: { 'html.zip': 30_000 },
        fields: { 'artifacts[]': 'html.zip' },
      }),
    ],
  },
];
