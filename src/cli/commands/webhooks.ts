import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { arrayBuffer } from 'node:stream/consumers';
import type { Command } from 'commander';
import { errorMessage } from '../../errors.ts';
import { list } from '../../setting-parsers.ts';
import { call, fetchReason } from '../api.ts';
import { requireSome, url as urlOf } from '../given.ts';
import { ignoreRepeated } from '../ignore-repeated.ts';
import { harmless, oneLine, print, type Row, table } from '../print.ts';

type Endpoint = Row & { event_types: string[] };
type Delivery = Row & { attempts: { status: number | null; error: string | null }[] };

export function webhookCommands(program: Command): void {
  const webhooks = program.command('webhooks').description('webhook endpoints and deliveries');
  webhooks
    .command('list')
    .description('list endpoints with their consecutive failures')
    .action(async (_options, command: Command) => {
      const answer = await call<{ webhook_endpoints: Endpoint[] }>('GET', '/api/webhook_endpoints');
      const rows = answer.webhook_endpoints.map((one) => ({ ...one, event_types: one.event_types.length === 0 ? 'all' : one.event_types }));
      const columns = ['id', 'name', 'url', 'enabled', 'consecutive_failures', 'event_types'];
      print(command, answer, () => table(rows, columns, 'No endpoints yet. Create one with: parley webhooks create <url>'));
    });
  webhooks
    .command('create <url>')
    .description('create an endpoint; its signing secret is shown once')
    .option('--name <name>', 'display name (default: the host)')
    .option('--events <types>', 'comma-separated event types (default: all)')
    .action(async (url: string, options: { name?: string; events?: string }, command: Command) => {
      const answer = await createEndpoint(url, options.name ?? urlOf(url).host, list(options.events ?? ''));
      print(command, answer, () => `Created endpoint ${answer.webhook_endpoint.id}. Signing secret (shown once): ${answer.secret}`);
    });
  for (const [verb, description] of [
    ['enable', 'resume deliveries to an endpoint'],
    ['disable', 'pause deliveries to an endpoint'],
    ['test', 'send a test event'],
  ] as const) {
    webhooks
      .command(`${verb} <endpoint-id>`)
      .description(description)
      .action(async (id: string, _options, command: Command) => {
        const answer = await call('POST', `${pathOf(id)}/${verb}`);
        const says = verb === 'test' ? `test event sent. What became of it: parley webhooks deliveries ${id}` : `${verb}d.`;
        print(command, answer, () => `Endpoint ${id}: ${says}`);
      });
  }
  webhooks
    .command('update <endpoint-id>')
    .description('change an endpoint')
    .option('--name <name>', 'display name')
    .option('--url <url>', 'where deliveries go')
    .option('--events <types>', 'comma-separated event types; "" for all')
    .action(async (id: string, { events, ...options }: { name?: string; url?: string; events?: string }, command: Command) => {
      const changes = { ...options, event_types: events === undefined ? undefined : list(events) };
      const answer = await call('PATCH', pathOf(id), requireSome(changes, '--name, --url or --events'));
      print(command, answer, () => `Changed endpoint ${id}.`);
    });
  webhooks
    .command('rotate-secret <endpoint-id>')
    .description('give an endpoint a new signing secret, which is shown once; for 24 hours the old one signs too')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call<{ secret: string }>('POST', `${pathOf(id)}/rotate_secret`);
      print(command, answer, () => `Endpoint ${id} has a new signing secret (shown once): ${answer.secret}`);
    });
  webhooks
    .command('recover <endpoint-id>')
    .description('send what an endpoint missed: failed deliveries, and events that were never sent to it')
    .requiredOption('--from <time>', 'beginning of the period, such as 2026-01-31 or 2026-01-31T12:00, in UTC (required)')
    .option('--to <time>', 'end of the period (default: now)')
    .action(async (id: string, options: { from: string; to?: string }, command: Command) => {
      const answer = await call<{ recovered: number }>('POST', `${pathOf(id)}/recover`, options);
      print(
        command,
        answer,
        () => `Endpoint ${id}: deliveries queued again: ${answer.recovered}. A disabled endpoint gets them when it is enabled.`,
      );
    });
  webhooks
    .command('delete <endpoint-id>')
    .description('delete an endpoint')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call('DELETE', pathOf(id));
      print(command, answer, () => `Deleted endpoint ${id}.`);
    });
  webhooks
    .command('deliveries <endpoint-id>')
    .description('list recent deliveries, with what became of the last attempt')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call<{ data: Delivery[] }>('GET', `${pathOf(id)}/deliveries?limit=50`);
      const columns = ['id', 'event_type', 'state', 'created_at', 'attempts', 'last_attempt'];
      print(command, answer, () =>
        table(answer.data.map(summarize), columns, 'No deliveries yet. Try: parley webhooks test <endpoint-id>'),
      );
    });
  webhooks
    .command('resend <delivery-id>')
    .description('send a delivery again')
    .action(async (id: string, _options, command: Command) => {
      const answer = await call('POST', `/api/webhook_deliveries/${encodeURIComponent(id)}/resend`);
      print(command, answer, () => `Sent delivery ${id} again.`);
    });
  webhooks
    .command('listen')
    .description('forward events to a local URL while the command runs; the server needs PARLEY_WEBHOOK_ALLOW_PRIVATE=1')
    .requiredOption('--forward <url>', 'such as http://127.0.0.1:3000/webhooks (required)')
    .option('--events <types>', 'comma-separated event types (default: all)')
    .action(async (options: { forward: string; events?: string }) => listen(urlOf(options.forward).href, list(options.events ?? '')));
}

function summarize(delivery: Delivery): Row {
  const last = delivery.attempts.at(-1);
  return { ...delivery, attempts: delivery.attempts.length, last_attempt: last?.error ?? last?.status };
}

/** Creates an endpoint that exists as long as this command runs, and forwards what it receives. */
async function listen(forward: string, events: string[]): Promise<void> {
  const server = createServer(async (incoming, answer) => {
    const body = await arrayBuffer(incoming).catch(() => undefined);
    if (body === undefined) return;
    // Whatever the program says, and before it does: while someone works on it, failures would be retried for hours and disable the endpoint.
    answer.writeHead(204).end();
    const outcome = await forwardTo(forward, incoming.headers, body);
    process.stdout.write(harmless(`${incoming.headers['svc-event-type']} ${incoming.headers['svc-event-id']} -> ${outcome}\n`));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const { webhook_endpoint: endpoint, secret } = await createEndpoint(`http://127.0.0.1:${port}/`, 'parley webhooks listen', events).catch(
    (error: unknown) => {
      server.close();
      throw error;
    },
  );
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const leave = () => {
    ignoreRepeated(signals);
    for (const signal of signals) process.off(signal, leave);
    process.stdout.off('error', leave).on('error', () => {});
    call('DELETE', pathOf(endpoint.id)).then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`parley: endpoint ${endpoint.id} could not be removed: ${oneLine(errorMessage(error))}\n`);
        process.exit(1);
      },
    );
  };
  for (const signal of signals) process.on(signal, leave);
  // When the program that reads the output has ended, the endpoint is removed too, before the process exits.
  process.stdout.removeAllListeners('error').on('error', leave);
  process.stdout.write(`Forwarding to ${forward}. Signing secret: ${secret}\nPress Ctrl-C to quit.\n`);
}

function pathOf(id: string | number): string {
  return `/api/webhook_endpoints/${encodeURIComponent(id)}`;
}

function createEndpoint(url: string, name: string, events: string[]): Promise<{ webhook_endpoint: { id: number }; secret: string }> {
  return call('POST', '/api/webhook_endpoints', { name, url, event_types: events });
}

/**
 * Forwards the raw bytes and the signature headers, so that the receiver can verify the signature. A redirect is the answer, as it is for
 * the server, which follows none. Returns what became of it, for a person.
 */
async function forwardTo(forward: string, received: IncomingHttpHeaders, body: ArrayBuffer): Promise<string> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  for (const [name, value] of Object.entries(received)) if (name.startsWith('svc-') && typeof value === 'string') headers[name] = value;
  try {
    const answer = await fetch(forward, { method: 'POST', headers, body, redirect: 'manual' });
    await answer.body?.cancel();
    return String(answer.status);
  } catch (error) {
    return `no answer from ${forward}: ${fetchReason(error)}`;
  }
}
