import type { BuildRequestRow, JobRow } from '../db/schema.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import { formatTraceparent, spanIdBelow, type TraceContext } from '../../shared/lib/trace-context.ts';
import { watchEndings } from '../lifecycle/endings.ts';
import { traceOf } from '../lifecycle/request-trace.ts';
import type { Span, Tracer } from '../lifecycle/spans.ts';
import type { Ending, Observers, WriteContext } from '../lifecycle/write-context.ts';

/**
 * Spans are made from the database and the runners' reports when a part of a request is over, so any server can
 * continue a trace. The request's row has its own span. The ids of spans below it are calculated from it. So a suite's
 * span is known when its order is made, and the order passes it as TRACEPARENT.
 */

export function traceWith(observers: Observers, tracer: Tracer): () => void {
  observers.tracer = tracer;
  const unwatch = watchEndings(observers, (context, ending) => {
    // Read within the transaction, before the request can begin another trace.
    context.db.atEnd(context.trx, async () => {
      const spans =
        ending.type === 'build' ? await spansOfBuild(context, ending) : await spansOfRequest(context, ending);
      send(context, spans);
    });
  });
  return () => {
    unwatch();
    observers.tracer = undefined;
  };
}

/** TRACEPARENT for a build that is about to begin. */
export function traceparentOf(context: WriteContext, build: { id: bigint; trace: string }): string | undefined {
  const trace = traceOf(context, build.trace);
  return trace && formatTraceparent(below(trace, `build ${build.id}`));
}

export function traceFetch(
  context: WriteContext,
  request: BuildRequestRow,
  job: Pick<JobRow, 'id'>,
  outcome: string,
): void {
  const trace = traceOf(context, request.trace);
  if (!trace) return;
  const endedAt = Date.now();
  const startedAt = trace.fetchAt ?? endedAt;
  const attributes = { ...about(request), 'headrace.fetch.outcome': outcome };
  const [parentId, isError] = [trace.spanId, outcome !== 'fetched' && outcome !== 'cancelled'];
  send(context, [
    waitSpan(trace, `fetch ${job.id}`, { parentId, startedAt: timeOfId(job.id), endedAt: startedAt }),
    { name: 'fetch', context: below(trace, `fetch ${job.id}`), parentId, startedAt, endedAt, attributes, isError },
  ]);
}

/** In milliseconds since the runner got the order. */
export interface ReportedSpan {
  name: string;
  from: number;
  to: number;
}

export function traceSpans(context: WriteContext, buildId: bigint, spans: readonly ReportedSpan[]): void {
  if (spans.length === 0 || !context.observers.tracer) return;
  const { trx } = context;
  context.db.atEnd(trx, async () => {
    const build = await findBuild(context, buildId);
    const trace = build && traceOf(context, build.trace);
    if (!trace || build.started_at === null) return;
    const began = Number(build.started_at);
    const ended = Number(build.finished_at ?? Date.now());
    const suite = below(trace, `build ${buildId}`);
    const within = (ms: number): number => Math.min(began + ms, ended); // the runner has another clock
    send(
      context,
      spans.map(({ name, from, to }, at) => ({
        name,
        context: below(suite, `step ${at}`),
        parentId: suite.spanId,
        startedAt: within(from),
        endedAt: within(Math.max(from, to)),
        attributes: { 'headrace.build.id': String(buildId) },
      })),
    );
  });
}

function findBuild({ trx }: WriteContext, id: bigint) {
  return trx
    .selectFrom('builds')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .selectAll('builds')
    .select('build_requests.trace')
    .where('builds.id', '=', id)
    .executeTakeFirst();
}

async function spansOfBuild(context: WriteContext, { id, state }: Ending): Promise<Span[]> {
  const build = await findBuild(context, id);
  const trace = build && traceOf(context, build.trace);
  if (!trace) return [];
  const suite = below(trace, `build ${id}`);
  const startedAt = Number(build.created_at);
  const endedAt = Number(build.finished_at ?? Date.now());
  const begunAt = Number(build.started_at ?? endedAt);
  return [
    waitSpan(suite, 'build', { parentId: suite.spanId, startedAt, endedAt: begunAt }),
    {
      name: `suite ${nameWithVariant(build.suite_name, build.variant)}`.trim(),
      context: suite,
      parentId: trace.spanId,
      startedAt,
      endedAt,
      isError: failed.has(state),
      attributes: {
        'headrace.build.id': String(id),
        'headrace.build.state': state,
        'headrace.build.attempt': build.attempt,
        ...(build.suite_id === null ? {} : { 'headrace.suite.id': String(build.suite_id) }),
        'headrace.suite.name': build.suite_name,
        ...(build.variant === '' ? {} : { 'headrace.build.variant': build.variant }),
        'headrace.project.id': String(build.project_id),
        ...(build.failure_reason === '' ? {} : { 'headrace.build.failure_reason': build.failure_reason }),
        ...(build.exit_status === null ? {} : { 'headrace.build.exit_status': build.exit_status }),
      },
    },
  ];
}

async function spansOfRequest(context: WriteContext, { id, state }: Ending): Promise<Span[]> {
  const request = await context.trx.selectFrom('build_requests').selectAll().where('id', '=', id).executeTakeFirst();
  const trace = request && traceOf(context, request.trace);
  if (!trace) return [];
  const attributes = {
    ...about(request),
    'headrace.build_request.state': state,
    'headrace.build_request.event': request.event,
  };
  const [startedAt, endedAt, isError] = [trace.at, Date.now(), failed.has(state)];
  return [{ name: 'build request', context: trace, parentId: trace.parentId, startedAt, endedAt, attributes, isError }];
}

const failed = new Set(['failed', 'errored', 'timed_out']);

function about({ id, project_id: projectId }: Pick<BuildRequestRow, 'id' | 'project_id'>): Span['attributes'] {
  return { 'headrace.build_request.id': String(id), 'headrace.project.id': String(projectId) };
}

function below(context: TraceContext, about: string): TraceContext {
  return { traceId: context.traceId, spanId: spanIdBelow(context, about), isSampled: context.isSampled };
}

function waitSpan(
  context: TraceContext,
  forWhat: string,
  times: Pick<Span, 'parentId' | 'startedAt' | 'endedAt'>,
): Span {
  return { name: 'wait', context: below(context, `wait ${forWhat}`), attributes: {}, ...times };
}

/** Sends the spans once the transaction is durable. */
function send({ db, trx, observers }: WriteContext, spans: Span[]): void {
  const sampled = spans.filter(({ context: { isSampled } }) => isSampled);
  if (sampled.length === 0) return;
  db.afterCommit(trx, () => {
    for (const span of sampled) observers.tracer?.end(span);
  });
}
