import type { Span, Tracer } from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { errorCode } from '../errors.ts';
import type { Model, ModelCall, ModelPart } from '../harness/model.ts';
import { TurnAborted } from '../harness/turn-world.ts';
import type { SessionState } from '../session/state.ts';
import type { Logger } from './logger.ts';

/** A span for each turn, and below it one for each call of a model, with the settled GenAI attributes. */
export interface Tracing {
  turnStarted(turnId: string, facts: { orgId: number; sessionId: string; agentSlug: string }): void;
  turnEnded(turnId: string, state: SessionState): void;
  /** The model, with a span below the session's running turn for each of its calls. */
  traced(model: Model, sessionId: string): Model;
  close(): Promise<void>;
}

const silent: Tracing = { turnStarted: () => {}, turnEnded: () => {}, traced: (model) => model, close: async () => {} };

/** Nothing is loaded and nothing is sent unless an endpoint is set. What people and models say is never in a span. */
export async function createTracing(endpoint: string | undefined, logger: Logger): Promise<Tracing> {
  if (endpoint === undefined) return silent;
  const api = await import('@opentelemetry/api');
  const { BatchSpanProcessor, TracerProvider } = await import('@opentelemetry/sdk-trace');
  const resources = await import('@opentelemetry/resources');
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
  // Stopping the server sends the last spans first: this is how long it waits for a collector that does not answer.
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces`, timeoutMillis: 2_000 });
  // The exporter itself drops spans silently when it cannot send them.
  const loggingExporter: SpanExporter = {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.error !== undefined) logger.warn({ err: result.error }, 'could not send traces to OTEL_EXPORTER_OTLP_ENDPOINT');
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
  const processor = new BatchSpanProcessor({ exporter: loggingExporter });
  // The service is named `parley` unless OpenTelemetry's own environment variables name it; its default is `unknown_service:node`.
  const named = resources.defaultResource().merge(resources.resourceFromAttributes({ 'service.name': 'parley' }));
  const { resourceAttributesEnvDetector, serviceNameEnvDetector } = resources;
  const resource = named.merge(resources.detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }));
  const provider = new TracerProvider({ spanProcessors: [processor], resource });
  // A failure to send the last spans was logged above; it must not keep the server from stopping.
  return createSpans(provider.getTracer('parley'), api, () => processor.shutdown().catch(() => {}));
}

function createSpans(tracer: Tracer, api: typeof import('@opentelemetry/api'), close: () => Promise<void>): Tracing {
  const turns = new Map<string, { span: Span; sessionId: string }>();
  const sessions = new Map<string, Span>();
  return {
    turnStarted(turnId, { orgId, sessionId, agentSlug }) {
      const attributes = {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': agentSlug,
        'gen_ai.conversation.id': sessionId,
        'parley.org_id': orgId,
        'parley.turn_id': turnId,
      };
      const span = tracer.startSpan(`invoke_agent ${agentSlug}`, { attributes });
      turns.set(turnId, { span, sessionId });
      sessions.set(sessionId, span);
    },
    turnEnded(turnId, state) {
      const turn = turns.get(turnId);
      if (turn === undefined) return;
      turns.delete(turnId);
      if (sessions.get(turn.sessionId) === turn.span) sessions.delete(turn.sessionId);
      const failure = state.turn?.failure;
      if (failure !== undefined) turn.span.setStatus({ code: api.SpanStatusCode.ERROR }).setAttribute('error.type', failure.code);
      turn.span.end();
    },
    traced(model, sessionId) {
      const stream = (call: ModelCall, signal: AbortSignal) => {
        const parent = sessions.get(sessionId);
        const context = parent === undefined ? api.context.active() : api.trace.setSpan(api.context.active(), parent);
        // The offline model runs in this process.
        const kind = model.provider === 'offline' ? api.SpanKind.INTERNAL : api.SpanKind.CLIENT;
        const span = tracer.startSpan(`chat ${model.name}`, { kind, attributes: callAttributes(model, sessionId) }, context);
        return endWith(span, model.stream(call, signal));
      };
      return { ...model, stream };
    },
    close,
  };

  /** Ends the span when the model's answer ends, however it does. */
  async function* endWith(span: Span, parts: AsyncIterable<ModelPart>): AsyncGenerator<ModelPart> {
    try {
      for await (const part of parts) {
        if (part.type === 'finish') {
          span.setAttributes({ 'gen_ai.usage.input_tokens': part.usage.input, 'gen_ai.usage.output_tokens': part.usage.output });
        }
        yield part;
      }
    } catch (error) {
      // An answer that was stopped, or whose turn was let go of, has had no error.
      const isStopped = error instanceof TurnAborted && error.why !== 'timeout';
      if (!isStopped) span.setStatus({ code: api.SpanStatusCode.ERROR });
      if (!isStopped && error instanceof Error) span.setAttribute('error.type', errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }
}

function errorType(error: Error): string {
  return error instanceof TurnAborted ? error.why : (errorCode(error) ?? error.name);
}

function callAttributes({ provider, name }: Model, sessionId: string): Record<string, string> {
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerNames[provider] ?? provider,
    'gen_ai.request.model': name,
    'gen_ai.conversation.id': sessionId,
  };
}

/** Providers that the conventions name in another way. */
const providerNames: Readonly<Record<string, string>> = { google: 'gcp.gemini' };
