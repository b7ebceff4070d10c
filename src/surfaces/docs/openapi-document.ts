import { fieldOf } from '../../text/json.ts';

interface Media {
  schema?: unknown;
}

interface Operation {
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses?: Record<string, { content?: Record<string, Media> }>;
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };
type Named = Map<string, { rest: JsonObject; examples: Json | undefined }>;

const eventStream: Media = { schema: { type: 'string', description: 'Server-Sent Events, if the body has `stream: true`.' } };

/** Makes the document that the plugin has written complete, and readable for generators of clients. */
export function completeDocument(written: object): object {
  const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(JSON.stringify(written));
  for (const operations of Object.values(document.paths)) for (const operation of Object.values(operations)) completeContents(operation);
  return nameSchemas(document);
}

/** Adds what the plugin cannot express: which bodies are optional, which answers can be streamed, and that errors are always JSON. */
function completeContents({ requestBody, responses = {} }: Operation): void {
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

/** Moves every schema that has a title into `components.schemas`, so that generated clients get a type of that name. */
function nameSchemas(document: object): object {
  const named: Named = new Map();
  const copy: JsonObject = JSON.parse(JSON.stringify(document));
  const paths = replaceTitled(copy.paths ?? {}, named);
  const components = isObject(copy.components) ? copy.components : {};
  const schemas = Object.fromEntries(
    [...named]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([title, { rest, examples }]) => [title, { title, ...rest, ...(examples === undefined ? {} : { examples }) }]),
  );
  return { ...copy, paths, components: { ...components, schemas } };
}

function replaceTitled(value: Json, named: Named): Json {
  if (Array.isArray(value)) return value.map((item) => replaceTitled(item, named));
  if (!isObject(value)) return value;
  // Examples contain data, not schemas.
  const entries = Object.entries(value).map(([key, child]) => [key, key.startsWith('example') ? child : replaceTitled(child, named)]);
  const inner: JsonObject = Object.fromEntries(entries);
  const { title, description: _description, examples, ...rest } = inner;
  if (typeof title !== 'string' || !/^[A-Z]\w*$/.test(title) || (inner.type !== 'object' && inner.anyOf === undefined)) return inner;
  const known = named.get(title);
  // If two schemas of one title differ, the second stays inline, because a name must mean one thing. Examples do not count as a
  // difference: those of a whole body have already been moved out of its schema.
  if (known !== undefined && JSON.stringify(known.rest) !== JSON.stringify(rest)) return inner;
  named.set(title, { rest, examples: known?.examples ?? examples });
  return { $ref: `#/components/schemas/${title}` };
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
