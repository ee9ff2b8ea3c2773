import type { ReadableSpan, Sampler, SpanExporter } from '@opentelemetry/sdk-trace';
import type { Span, Tracer } from '../lifecycle/spans.ts';

export interface ClosableTracer extends Tracer {
  /** Sends the rest within a short time. */
  close(): Promise<void>;
}

interface ExporterParts {
  env: NodeJS.ProcessEnv;
  version: string;
  /** Called once when the collector stops accepting spans, and once with undefined when it accepts them again. */
  onTrouble: (reason: string | undefined) => void;
}

const lastSendMs = 3000;

/**
 * Undefined unless OpenTelemetry's variables name a collector, so most servers need not load its megabytes. Spans that
 * a slow or unreachable collector does not accept are dropped, and nothing waits for it.
 */
export async function openSpanExporter({
  env,
  version,
  onTrouble,
}: ExporterParts): Promise<ClosableTracer | undefined> {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none')
    return undefined;
  if (!/^https?:\/\/[^\s/]/.test(endpoint) || !URL.canParse(endpoint))
    throw new Error('OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// address');
  const exporter = watched(await exporterOf(env), onTrouble);
  const [api, { BatchSpanProcessor, ...sdk }, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
  ]);
  const sampler = samplerOf(env, sdk);
  const resource = resources
    .defaultResource()
    .merge(resources.resourceFromAttributes({ 'service.name': 'headrace', 'service.version': version }))
    .merge(resources.detectResources({ detectors: [resources.envDetector] }));
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: count(env.OTEL_BSP_MAX_QUEUE_SIZE, 2048),
    maxExportBatchSize: count(env.OTEL_BSP_MAX_EXPORT_BATCH_SIZE, 512),
    scheduledDelayMillis: count(env.OTEL_BSP_SCHEDULE_DELAY, 5000),
    exportTimeoutMillis: count(env.OTEL_BSP_EXPORT_TIMEOUT, 30_000),
  });
  const flags = (isSampled: boolean): number => (isSampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE);
  const contextOf = ({ traceId, spanId, isSampled }: Span['context'], isRemote = false) => ({
    traceId,
    spanId,
    isRemote,
    traceFlags: flags(isSampled),
  });
  return {
    isSampled(traceId, parent) {
      const root = api.ROOT_CONTEXT;
      const context = parent ? api.trace.setSpanContext(root, contextOf(parent, true)) : root;
      const { decision } = sampler.shouldSample(context, traceId, 'build request', api.SpanKind.INTERNAL, {}, []);
      return decision === sdk.SamplingDecision.RECORD_AND_SAMPLED;
    },
    end({ name, context, parentId, startedAt, endedAt, attributes, isError = false }) {
      const span: ReadableSpan = {
        name,
        kind: api.SpanKind.INTERNAL,
        spanContext: () => contextOf(context),
        ...(parentId === undefined ? {} : { parentSpanContext: contextOf({ ...context, spanId: parentId }) }),
        startTime: timeOf(startedAt),
        endTime: timeOf(Math.max(startedAt, endedAt)),
        duration: timeOf(Math.max(0, endedAt - startedAt)),
        status: { code: isError ? api.SpanStatusCode.ERROR : api.SpanStatusCode.UNSET },
        attributes,
        links: [],
        events: [],
        ended: true,
        resource,
        instrumentationScope: { name: 'headrace', version },
        droppedAttributesCount: 0,
        droppedEventsCount: 0,
        droppedLinksCount: 0,
      };
      processor.onEnd(span);
    },
    async close() {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, lastSendMs);
      await Promise.race([processor.shutdown().catch(() => {}), late]);
      clearTimeout(timer);
    },
  };
}

/** The exporter reads the address, headers, certificates and the rest from the environment. */
async function exporterOf(env: NodeJS.ProcessEnv): Promise<SpanExporter> {
  const protocol = env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf';
  if (protocol === 'http/protobuf')
    return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter();
  if (protocol === 'http/json')
    return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter();
  throw new Error('OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json');
}

type Sdk = Pick<
  typeof import('@opentelemetry/sdk-trace'),
  'AlwaysOnSampler' | 'AlwaysOffSampler' | 'ParentBasedSampler' | 'TraceIdRatioBasedSampler'
>;

function samplerOf(
  { OTEL_TRACES_SAMPLER: wanted, OTEL_TRACES_SAMPLER_ARG: argument = '' }: NodeJS.ProcessEnv,
  sdk: Sdk,
): Sampler {
  const [, parentBased, kind] =
    /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(wanted || 'parentbased_always_on') ?? [];
  if (kind === undefined)
    throw new Error(
      'OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or one of these after parentbased_',
    );
  const ratio = argument === '' ? 1 : Number(argument);
  if (kind === 'traceidratio' && !(ratio >= 0 && ratio <= 1))
    throw new Error('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1');
  const samplers: Record<string, () => Sampler> = {
    always_on: () => new sdk.AlwaysOnSampler(),
    always_off: () => new sdk.AlwaysOffSampler(),
    traceidratio: () => new sdk.TraceIdRatioBasedSampler(ratio),
  };
  const root = (samplers[kind] as () => Sampler)();
  return parentBased === undefined ? root : new sdk.ParentBasedSampler({ root });
}

/** Reports an outage once, without headers and address, which may contain credentials. */
function watched(exporter: SpanExporter, onTrouble: ExporterParts['onTrouble']): SpanExporter {
  let isTroubled = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const { code }: { code: number } = result;
        const hasFailed = code !== 0;
        if (hasFailed !== isTroubled) onTrouble(hasFailed ? reasonOf(result.error) : undefined);
        isTroubled = hasFailed;
        done(result);
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

function reasonOf(error: Error | undefined): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' || typeof code === 'number' ? String(code) : (error?.name ?? 'unknown');
}

function count(text: string | undefined, fallback: number): number {
  return text !== undefined && /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : fallback;
}

function timeOf(milliseconds: number): [number, number] {
  const seconds = Math.floor(milliseconds / 1000);
  return [seconds, Math.round((milliseconds - seconds * 1000) * 1e6)];
}
