import cluster from 'node:cluster';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { SessionState } from '../session/state.ts';
import { shareMetrics } from './worker-metrics.ts';

/** What an operator watches, in Prometheus' format at /metrics. One per process; nothing in it names a customer. */
export interface Metrics {
  contentType: string;
  /** With `--workers`, the metrics of every process, told apart by the label `worker`. */
  read(): Promise<string>;
  turnPaused(milliseconds: number): void;
  turnEnded(state: SessionState, milliseconds: number): void;
  requestEnded(route: string, method: string, status: number, milliseconds: number): void;
  /** Reads a value at each scrape. */
  gauge(name: string, help: string, read: () => number | Promise<number>): void;
  /** Likewise, for a number that only grows and is counted elsewhere. */
  counter(name: string, help: string, read: () => number): void;
}

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/**
 * Default metrics that block the event loop to list everything that is open: 13 ms of each scrape with 8,000 streams.
 * `watchProcess` counts open files without blocking; our own metrics replace the rest.
 */
const blockingDefaults = [
  'process_open_fds',
  ...['handles', 'requests', 'resources'].flatMap((what) => [`nodejs_active_${what}`, `nodejs_active_${what}_total`]),
];

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of blockingDefaults) registry.removeSingleMetric(name);
  const registers = [registry];
  const readOwn = () => registry.metrics();
  if (cluster.worker !== undefined) registry.setDefaultLabels({ worker: String(cluster.worker.id) });
  const turns = new Counter({ name: 'parley_turns_total', help: 'Ended turns, by outcome', labelNames: ['outcome'], registers });
  const failures = new Counter({
    name: 'parley_turn_failures_total',
    help: 'Failed turns, by error code and model provider',
    labelNames: ['code', 'provider'],
    registers,
  });
  const turnSeconds = new Histogram({
    name: 'parley_turn_seconds',
    help: 'Time from the start of a turn to its end or pause',
    buckets: seconds,
    registers,
  });
  const tokens = new Counter({ name: 'parley_tokens_total', help: 'Tokens of ended turns', labelNames: ['kind'], registers });
  const requests = new Histogram({
    name: 'parley_http_request_seconds',
    help: 'HTTP requests by route and status; streams count until they end',
    labelNames: ['method', 'route', 'status'],
    buckets: seconds,
    registers,
  });
  const inputTokens = tokens.labels('input');
  const outputTokens = tokens.labels('output');
  /** Finding a series by its labels costs more than counting; there are as many as routes times statuses. */
  const requestSeries = new Map<string, ReturnType<typeof requests.labels>>();
  return {
    contentType: registry.contentType,
    read: cluster.worker === undefined ? readOwn : shareMetrics(readOwn),
    turnPaused: (milliseconds) => turnSeconds.observe(milliseconds / 1000),
    turnEnded(state, milliseconds) {
      turns.inc({ outcome: state.turn?.ended ?? 'unknown' });
      const { failure } = state.turn ?? {};
      if (failure !== undefined) failures.inc({ code: failure.code, provider: failure.provider ?? '' });
      turnSeconds.observe(milliseconds / 1000);
      inputTokens.inc(state.turn?.usage.input ?? 0);
      outputTokens.inc(state.turn?.usage.output ?? 0);
    },
    requestEnded(route, method, status, milliseconds) {
      const name = `${method} ${status} ${route}`;
      const series = requestSeries.get(name) ?? requests.labels(method, route, String(status));
      requestSeries.set(name, series);
      series.observe(milliseconds / 1000);
    },
    counter(name, help, read) {
      const counter = new Counter({
        name,
        help,
        registers,
        collect() {
          counter.reset();
          counter.inc(read());
        },
      });
    },
    gauge(name, help, read) {
      const gauge = new Gauge({
        name,
        help,
        registers,
        async collect() {
          gauge.set(await read());
        },
      });
    },
  };
}
