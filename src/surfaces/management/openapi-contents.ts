import { fieldOf } from '../../json.ts';

interface Media {
  schema?: unknown;
}

export interface Operation {
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses?: Record<string, { content?: Record<string, Media> }>;
}

const eventStream: Media = { schema: { type: 'string', description: 'Server-Sent Events, if the body has `stream: true`.' } };

/** Adds what the plugin cannot express: which bodies are optional, which answers can be streamed, and that errors are always JSON. */
export function completeContents({ requestBody, responses = {} }: Operation): void {
  const body = requestBody?.content['application/json']?.schema;
  const choices: unknown = fieldOf(body, 'anyOf');
  if (requestBody && Array.isArray(choices) && choices.some((choice) => fieldOf(choice, 'type') === 'null')) requestBody.required = false;
  for (const [status, { content = {} }] of Object.entries(responses)) {
    const [type, media] = Object.entries(content)[0] ?? [];
    if (media === undefined || type === undefined) continue;
    if (status >= '400') {
      delete content[type];
      content['application/json'] = media;
    } else if (fieldOf(fieldOf(body, 'properties'), 'stream') !== undefined) {
      content['text/event-stream'] = eventStream;
    }
  }
}
