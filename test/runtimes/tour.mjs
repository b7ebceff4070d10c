// What an application does with the client, in plain JavaScript that every runtime runs as it stands. Prints what it saw, as JSON.
// Arguments: the server's address, the same by a way that cuts every stream once, an API key, and a webhook's secret, header and body.
import { NotFoundError, ParleyClient, SignatureError, verifyWebhook } from '@parley/client';

const [baseUrl, breaking, apiKey, secret, header, payload] = globalThis.process.argv.slice(2);
const parley = new ParleyClient({ baseUrl, apiKey, agent: 'demo/assistant' });
const seen = {};

const session = await parley.sessions.create({ metadata: { end_user_id: 'ann' } });
seen.reply = (await parley.messages.send(session.id, '/say Good morning')).text;

seen.streamed = '';
for await (const event of parley.messages.stream(session.id, '/say one two three'))
  if (event.type === 'text') seen.streamed += event.data.part.text;

for await (const event of parley.messages.stream(session.id, '/tool bash {"command":"echo approved"}'))
  if (event.type === 'input_required') {
    seen.asked = event.data.tool;
    const { events } = await parley.inputs.resolve(session.id, event.data.request_id, 'approve_once');
    seen.resolved = events.at(-1).type;
  }

const cut = new ParleyClient({ baseUrl: breaking, apiKey, agent: 'demo/assistant' });
const sessionToken = async () => (await parley.mintSessionToken({ end_user_id: 'ann' })).token;
const { managed } = new ParleyClient({ baseUrl: breaking, sessionToken, agent: 'demo/assistant' });
const { id } = await managed.create();
seen.uploaded = await managed.upload(id, 'note.txt', new Blob(['from afar']));
await managed.send(id, '/tool files {"operation":"read","path":"uploads/note.txt"}');
seen.log = [];
for await (const event of managed.events(id, { until: 'idle' })) seen.log.push(`${event.seq} ${event.type}`);

seen.resumed = '';
for await (const event of cut.messages.stream(session.id, '/delay 2\n/words 30'))
  if (event.type === 'text') seen.resumed += event.data.part.text;
seen.resumed = seen.resumed.split(' ').length;

seen.webhook = (await verifyWebhook(payload, header, secret)).type;
seen.forged = await verifyWebhook(`${payload} `, header, secret).catch((error) => error instanceof SignatureError);
seen.missing = await parley.sessions.get('ses_unknown').catch((error) => [error instanceof NotFoundError, error.status, error.detail]);
seen.transcript = (await parley.sessions.transcript(session.id)).messages.length;

console.log(JSON.stringify(seen));
