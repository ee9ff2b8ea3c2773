import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attributesOf, startCollector, treeOf, type Collector } from '../support/collector.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';
import { headrace, serve } from '../support/program.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';

/** The program as an operator starts it, with its runner, its sandbox and a collector. */
onOneDatabase((database) => {
  let collector: Collector;
  let installation: Installation;
  let project: Project;
  before(async () => {
    collector = await startCollector();
    installation = await startInstallation(database, {
      ...collector.env,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20hush-hush',
    });
    project = await installation.project();
  });
  after(() => collector.close());
  const traceOf = (log: string): string => /^TRACEPARENT 00-([0-9a-f]{32})-/m.exec(log)?.[1] ?? assert.fail(log);
  const logOf = async (suite: string): Promise<string> => {
    const [commit] = await project.commits();
    return project.log((await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite));
  };

  test('a build with a launch command is traced step by step, and its tools can go on with the trace', async (t) => {
    const dependency = await dependenciesOf(() => installation.api()).compile(
      { name: 'mill', command: 'cp * /srv/mill', prefix: '/srv/mill', launch_command: 'echo "LAUNCHED $TRACEPARENT"' },
      await archiveOf({ wheel: 'wheel\n' }),
    );
    const suite = await project.suite(t, 'unit', 'echo "TRACEPARENT $TRACEPARENT"; echo "$TOKEN"; exit 3');
    await project.suite(t, 'lint', '', {
      'steps[0][name]': 'prepare',
      'steps[0][command]': 'true',
      'steps[1][name]': 'look',
      'steps[1][command]': 'false',
      'steps[2][name]': 'never',
      'steps[2][command]': 'true',
    });
    await project.attach(suite, dependency);
    await project.variable(suite, 'TOKEN', 'not-for-anybody', { secret: 'true' });
    await project.build('main');
    const log = await logOf(suite);
    const spans = await collector.trace(traceOf(log), 13);
    assert.deepEqual(treeOf(spans), {
      'build request': {
        wait: {},
        fetch: {},
        'suite unit': { wait: {}, checkout: {}, software: {}, 'launch mill': {}, command: {} },
        'suite lint': { wait: {}, checkout: {}, prepare: {}, look: {} },
      },
    });
    const unit = spans.find(({ name }) => name === 'suite unit');
    const own = `00-${unit?.traceId}-${unit?.spanId}-01`;
    assert.ok(log.startsWith(`LAUNCHED ${own}\nTRACEPARENT ${own}\n`), log);
    assert.equal(attributesOf(unit)['headrace.build.exit_status'], 3);
    const all = collector.requests.map(({ body }) => body.toString()).join('');
    for (const private_ of ['not-for-anybody', 'TRACEPARENT', 'LAUNCHED', 'exit 3', 'hush-hush'])
      assert.ok(!all.includes(private_), `${private_} is in a span`);
  });

  test('a server that dies in the middle goes on with the same trace, and no runner has its headers', async (t) => {
    const suite = await project.suite(
      t,
      'long',
      'echo "TRACEPARENT $TRACEPARENT"; while [ ! -e /tmp/x ]; do sleep 0.1; done',
    );
    const asked = await project.ask('main');
    await project.untilLogged(suite, /TRACEPARENT/);
    const traceId = traceOf(await logOf(suite));
    await installation.killServer();
    await installation.startServer();
    for (const pid of commandsWith(`runner\0--local\0--data-dir\0${installation.folder}\0`))
      assert.ok(!/OTEL_|hush/.test(readFileSync(`/proc/${pid}/environ`, 'utf8')));
    await project.cancel(asked);
    await project.end(asked);
    const spans = await collector.trace(traceId, 6);
    const tree = treeOf(spans) as Record<string, Record<string, object>>;
    assert.deepEqual(Object.keys(tree), ['build request']);
    assert.deepEqual(tree['build request']?.['suite long'], { wait: {}, checkout: {}, command: {} });
    assert.ok(!/hush/.test(installation.serving().log()));
  });
});

describe('a server', () => {
  const afterwards: (() => unknown)[] = [];
  after(async () => {
    for (const work of afterwards) await work();
  });
  const place = { afterwards: (work: () => unknown) => void afterwards.push(work) };
  /** Writes down each module that the program loads. */
  const loadedBy = async (env: Record<string, string>): Promise<string> => {
    const folder = temporaryFolder();
    const [probe, list] = [join(folder, 'probe.mjs'), join(folder, 'loaded')];
    writeFileSync(
      probe,
      `import { registerHooks } from 'node:module';
       import { appendFileSync } from 'node:fs';
       registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + '\\n'); return next(url, context); } });`,
    );
    const data = join(folder, 'data');
    const serving = await serve(place, data, { ...env, NODE_OPTIONS: `--import=${probe}` });
    assert.equal((await serving.api.get('/metrics')).status, 200);
    serving.process.kill('SIGTERM');
    await serving.exited;
    return readFileSync(list, 'utf8');
  };

  test('loads no exporter of OpenTelemetry unless a collector is named', async () => {
    const without = await loadedBy({ OTEL_SERVICE_NAME: 'mill', OTEL_TRACES_SAMPLER: 'always_on' });
    assert.match(without, /main\.[jt]s/);
    assert.doesNotMatch(without, /@opentelemetry\/(?:sdk|exporter)/);
    const withOne = await loadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
    assert.match(withOne, /@opentelemetry\/sdk-trace/);
  });

  test('does not start with settings that it would have to guess the meaning of', async () => {
    const folder = temporaryFolder();
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
    for (const [env, complaint] of [
      [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' }, /ENDPOINT must be an http/],
      [{ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /PROTOCOL must be http\/protobuf or http\/json/],
      [{ ...endpoint, OTEL_TRACES_SAMPLER: 'sometimes' }, /OTEL_TRACES_SAMPLER must be/],
      [{ ...endpoint, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, /from 0 to 1/],
    ] as const) {
      const { status, stderr } = await headrace(['serve', '--no-runner', '--port', '0', '--data-dir', folder], env);
      assert.notEqual(status, 0);
      assert.match(stderr.toString(), complaint);
    }
  });
});
