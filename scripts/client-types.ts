// Converts the OpenAPI document to TypeScript: `Schemas` has every named schema, `Routes` the parameters, body and answer of every route,
// except of those that only stream: the client has methods of its own for streams.
interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  description?: string;
}

interface Content {
  content?: Record<string, { schema?: Schema }>;
}

interface Operation {
  summary?: string;
  parameters?: { name: string; in: string; required?: boolean; schema: Schema; description?: string }[];
  requestBody?: Content;
  responses: Record<string, Content>;
}

export interface OpenApiDocument {
  components: { schemas: Record<string, Schema> };
  paths: Record<string, Record<string, Operation>>;
}

export function clientTypes(document: OpenApiDocument): string {
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => `  ${name}: ${typeOf(schema, '  ')};\n`);
  const routes = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, operation]) => !onlyStreams(operation))
      .map(([method, operation]) => routeOf(`${method.toUpperCase()} ${path}`, operation)),
  );
  return [
    '// Generated from the OpenAPI document of the server: npm run generate\n',
    `export interface Schemas {\n${schemas.join('')}}\n`,
    `export interface Routes {\n${routes.join('')}}\n`,
  ].join('\n');
}

function onlyStreams(operation: Operation): boolean {
  return Object.keys(successOf(operation)?.content ?? {}).join() === 'text/event-stream';
}

function successOf({ responses }: Operation): Content | undefined {
  return Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
}

function routeOf(name: string, operation: Operation): string {
  const { summary, parameters = [], requestBody } = operation;
  const success = successOf(operation);
  const parametersIn = (place: string) => {
    const found = parameters.filter((parameter) => parameter.in === place);
    const properties = Object.fromEntries(
      found.map(({ name, schema, description }) => [name, description ? { ...schema, description } : schema]),
    );
    const required = found.filter((parameter) => parameter.required).map(({ name }) => name);
    return propertiesType(properties, required, '    ');
  };
  return [
    summary === undefined ? '' : `  /** ${summary} */\n`,
    `  '${name}': {\n`,
    `    path: ${parametersIn('path')};\n`,
    `    query: ${parametersIn('query')};\n`,
    `    body: ${requestBody === undefined ? 'undefined' : contentOf(requestBody)};\n`,
    `    answer: ${success === undefined ? 'undefined' : contentOf(success)};\n`,
    '  };\n',
  ].join('');
}

function contentOf({ content }: Content): string {
  if (content === undefined) return 'undefined';
  const schema = (content['application/json'] ?? content['text/csv'])?.schema;
  return schema === undefined ? 'unknown' : typeOf(schema, '    ');
}

function typeOf(schema: Schema, indent: string): string {
  const { $ref, enum: values, anyOf, oneOf, allOf, type } = schema;
  if ($ref !== undefined) return `Schemas['${$ref.split('/').at(-1)}']`;
  if (schema.const !== undefined) return literal(schema.const);
  if (values !== undefined) return union(values.map(literal));
  const choices = anyOf ?? oneOf;
  if (choices !== undefined) return union(choices.map((choice) => typeOf(choice, indent)));
  if (allOf !== undefined) return allOf.map((part) => `(${typeOf(part, indent)})`).join(' & ');
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one }, indent)));
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
    case 'number':
      return type;
    case 'integer':
      return 'number';
    case 'array':
      return schema.items === undefined ? 'unknown[]' : `(${typeOf(schema.items, indent)})[]`;
    case 'object':
      return objectType(schema, indent);
    default:
      return 'unknown';
  }
}

function objectType({ properties, required = [], additionalProperties }: Schema, indent: string): string {
  const more = typeof additionalProperties === 'object' ? typeOf(additionalProperties, indent) : 'unknown';
  const open = `{ [name: string]: ${more} }`;
  if (properties === undefined) return open;
  const closed = propertiesType(properties, required, indent);
  return additionalProperties === undefined || additionalProperties === false ? closed : `${closed} & ${open}`;
}

function propertiesType(properties: Record<string, Schema>, required: string[], indent: string): string {
  const inner = `${indent}  `;
  const lines = Object.entries(properties).map(([name, schema]) => {
    const comment = schema.description === undefined ? '' : `${inner}/** ${schema.description.replaceAll('*/', '* /')} */\n`;
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : `'${name}'`;
    return `${comment}${inner}${key}${required.includes(name) ? '' : '?'}: ${typeOf(schema, inner)};\n`;
  });
  return lines.length === 0 ? '{}' : `{\n${lines.join('')}${indent}}`;
}

function union(types: string[]): string {
  return [...new Set(types)].join(' | ');
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : JSON.stringify(value);
}
