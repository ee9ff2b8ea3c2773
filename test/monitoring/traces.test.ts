import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openSpanExporter, type ClosableTracer } from '../../src/server/tracing/span-exporter.ts';
import { advanceBuild } from '../../src/server/lifecycle/builds.ts';
import { attributesOf, startCollector, treeOf, type Collector } from '../support/collector.ts';
import { describeWithRunnerOnOne } from '../support/runner.ts';
import type { Record_ } from '../support/client.ts';
import type { User } from '../support/user.ts';
import { newSpanId, newTraceId } from '../../src/shared/lib/trace-context.ts';

let collector: Collector;
let tracer: ClosableTracer | undefined;
before(async () => {
  collector = await startCollector();
  Object.assign(process.env, collector.env, { OTEL_SERVICE_NAME: 'mill', OTEL_EXPORTER_OTLP_HEADERS: 'api-key=hush' });
  tracer = await openSpanExporter({ env: process.env, version: '1.2.3', onTrouble: () => {} });
});
after(async () => {
  await tracer?.close();
  await collector.close();
});

describeWithRunnerOnOne(
  'the trace of a build request',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    before(async () => {
      alice = await service.user();
      project = await alice.createProject();
      for (const name of ['unit', 'lint']) await alice.createSuite(project, { name, command: `run ${name}` });
    });
    const request = async (traceparent: string): Promise<Record_> => {
      const path = `/projects/${project.id}/build_requests`;
      const options = { as: alice.credentials, form: { commit_ref: 'main' }, headers: { traceparent } };
      const answer = await service.api.ask('POST', path, options);
      assert.equal(answer.status, 201, answer.text);
      return answer.record;
    };
    const parent = (traceId = newTraceId(), flags = '01') => {
      const spanId = newSpanId();
      return { traceId, spanId, header: `00-${traceId}-${spanId}-${flags}` };
    };
    /** Runs both suites, and answers the TRACEPARENT of each by the suite's name. */
    const runBoth = async (spans?: { name: string; from: number; to: number }[]): Promise<Record<string, string>> => {
      const seen: Record<string, string> = {};
      for (let count = 0; count < 2; count += 1) {
        const { order } = await runner.take('run_suite');
        const { environment, isTraced } = order.work;
        seen[environment.HEADRACE_SUITE ?? ''] = environment.TRACEPARENT ?? '';
        const report = { claim: order.claim, outcome: { kind: 'exited', status: count } as const, logSize: 0 };
        await runner.dispatch.finish(runner.self, { ...report, ...(spans && isTraced ? { spans } : {}) });
      }
      return seen;
    };

    test('has the request, its waits, the fetch, each suite and its steps, below the caller', async () => {
      const caller = parent();
      const { id } = await request(caller.header);
      await (await runner.take('fetch_commit')).fetched();
      const seen = await runBoth([
        { name: 'checkout', from: 0, to: 0 },
        { name: 'command', from: 1, to: 9_000_000 },
      ]);
      const spans = await collector.trace(caller.traceId, 11);
      const suite = { wait: {}, checkout: {}, command: {} };
      assert.deepEqual(treeOf(spans, caller.spanId), {
        'build request': { wait: {}, fetch: {}, 'suite unit': suite, 'suite lint': suite },
      });
      const named = (name: string) => spans.find((span) => span.name === name);
      assert.equal(seen.unit, `00-${caller.traceId}-${named('suite unit')?.spanId}-01`);
      assert.equal(seen.lint, `00-${caller.traceId}-${named('suite lint')?.spanId}-01`);
      const { 'headrace.build.id': buildId, ...ofUnit } = attributesOf(named('suite unit'));
      const suites = await service.store.db.read
        .selectFrom('builds')
        .selectAll()
        .where('id', '=', BigInt(String(buildId)))
        .execute();
      assert.deepEqual(ofUnit, {
        'headrace.build.state': 'passed',
        'headrace.build.attempt': 1,
        'headrace.build.exit_status': 0,
        'headrace.suite.id': String(suites[0]?.suite_id),
        'headrace.suite.name': 'unit',
        'headrace.project.id': String(project.id),
      });
      assert.equal(attributesOf(named('build request'))['headrace.build_request.id'], String(id));
      assert.deepEqual([named('suite unit')?.status.code, named('suite lint')?.status.code], [0, 2]);
      for (const { startTimeUnixNano: from, endTimeUnixNano: to, name } of spans) {
        const above = named('build request');
        assert.ok(BigInt(from) <= BigInt(to), name);
        assert.ok(BigInt(to) <= BigInt(above?.endTimeUnixNano ?? 0) + 1_000_000n, `${name} ends within the request`);
      }
    });

    test('goes on in another trace when it is run again', async () => {
      const [first, second] = [parent(), parent()];
      const { id } = await request(first.header);
      await (await runner.take('fetch_commit')).fetched();
      await runBoth();
      const path = `/projects/${project.id}/build_requests/${id}/rerun`;
      await service.api.ask('POST', path, { as: alice.credentials, headers: { traceparent: second.header } });
      const seen = await runBoth();
      const [before, again] = [await collector.trace(first.traceId, 7), await collector.trace(second.traceId, 5)];
      assert.deepEqual(treeOf(before, first.spanId), {
        'build request': { wait: {}, fetch: {}, 'suite unit': { wait: {} }, 'suite lint': { wait: {} } },
      });
      assert.deepEqual(treeOf(again, second.spanId), {
        'build request': { 'suite unit': { wait: {} }, 'suite lint': { wait: {} } },
      });
      assert.match(seen.unit ?? '', new RegExp(`^00-${second.traceId}-`));
    });

    test('tells of a build that was lost, and of its next attempt', async () => {
      const caller = parent();
      await request(caller.header);
      await (await runner.take('fetch_commit')).fetched();
      const { order } = await runner.take('run_suite');
      const lost = { kind: 'lost', message: 'the machine burns' } as const;
      await runner.dispatch.finish(runner.self, { claim: order.claim, outcome: lost, logSize: 0 });
      await runBoth();
      const spans = await collector.trace(caller.traceId, 9);
      const attempts = spans
        .filter(({ name }) => name === 'suite unit')
        .map((span) => attributesOf(span))
        .toSorted((one, other) => Number(one['headrace.build.attempt']) - Number(other['headrace.build.attempt']));
      assert.deepEqual(
        attempts.map((attempt) => attempt['headrace.build.failure_reason']),
        ['runner_lost', undefined],
      );
    });

    test('has nothing of what was rolled back', async () => {
      const caller = parent();
      await request(caller.header);
      await (await runner.take('fetch_commit')).fetched();
      const { db, ids, observers } = service.store;
      const builds = db.read.selectFrom('builds').select('id').orderBy('id', 'desc');
      const { id } = await builds.executeTakeFirstOrThrow();
      const undone = db.transaction(async (trx) => {
        assert.ok(await advanceBuild({ db, trx, ids, observers }, { id }, 'errored'));
        db.atEnd(trx, () => Promise.reject(new Error('never mind'))); // when everything else is done
      });
      await assert.rejects(undone, /never mind/);
      await runBoth();
      const states = (await collector.trace(caller.traceId, 7)).map(
        (span) => attributesOf(span)['headrace.build.state'],
      );
      assert.deepEqual(states.flatMap((state) => (typeof state === 'string' ? [state] : [])).toSorted(), [
        'failed',
        'passed',
      ]);
    });

    test('takes no parent from a header that is not one, and keeps quiet where the caller does', async () => {
      const [traceId, spanId] = [newTraceId().replace(/^./, 'a'), newSpanId().replace(/^./, 'b')];
      const wrong = [
        '',
        'x'.repeat(8000),
        `00-${traceId}-${spanId}-01-more`,
        `00-${traceId}${'0'.repeat(4000)}-${spanId}-01`,
        `01-${traceId}-${spanId}-01`,
        `ff-${traceId}-${spanId}-01`,
        `00-${'0'.repeat(32)}-${spanId}-01`,
        `00-${traceId}-${'0'.repeat(16)}-01`,
        `00-${traceId.toUpperCase()}-${spanId}-01`,
        `00-${traceId}-${spanId}-0g`,
        `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
        `00-${traceId}-${spanId}-01","parentId":"${spanId}`,
      ];
      for (const header of wrong) {
        await request(header);
        await (await runner.take('fetch_commit')).fetched();
        const { unit = '' } = await runBoth();
        assert.match(unit, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/, header);
        assert.ok(!unit.includes(traceId), header);
        const [root] = (await collector.trace(unit.slice(3, 35), 7)).filter(({ name }) => name === 'build request');
        assert.equal(root?.parentSpanId || undefined, undefined, header);
      }
      const unsampled = parent(traceId, '00');
      await request(unsampled.header);
      await (await runner.take('fetch_commit')).fetched();
      assert.match((await runBoth()).unit ?? '', new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
      const next = parent();
      await request(next.header);
      await (await runner.take('fetch_commit')).fetched();
      await runBoth();
      await collector.trace(next.traceId, 7);
      assert.deepEqual(
        collector.spans().filter((span) => span.traceId === traceId),
        [],
      );
    });

    test('is sent with the headers of the collector, and with nothing of what runs', async () => {
      const { headers, url } = collector.requests.at(-1) ?? assert.fail('nothing came');
      assert.deepEqual([headers['api-key'], url], ['hush', '/v1/traces']);
      const all = collector.requests.map(({ body }) => body.toString()).join('');
      assert.ok(all.includes('mill') && !all.includes('run unit'), 'a command is no attribute');
      assert.ok(!service.log.includes('hush'));
    });
  },
  {
    get tracer() {
      return tracer;
    },
  },
);
