// Tools of your own: an MCP server that knows the stock of a shop and takes orders.
//   npm exec -- node examples/tools/server.mjs
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const stock = new Map([
  ['canoe', 3],
  ['kayak', 0],
]);

function shop() {
  const tools = new McpServer({ name: 'shop', version: '1.0.0' });
  const inputSchema = z.object({ product: z.string() });
  const text = (value) => ({ content: [{ type: 'text', text: value }] });
  // Read-only, so it runs without being asked about.
  const look = { description: 'Tells how many of a product are left.', inputSchema, annotations: { readOnlyHint: true } };
  tools.registerTool('stock', look, ({ product }) => text(`${stock.get(product) ?? 0} left`));
  tools.registerTool('order', { description: 'Orders one of a product.', inputSchema }, ({ product }) => {
    const left = stock.get(product) ?? 0;
    if (left === 0) return { ...text(`There is no ${product} left.`), isError: true };
    stock.set(product, left - 1);
    return text(`Ordered one ${product}.`);
  });
  return tools;
}

const handler = createMcpHandler(shop);
const server = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch(() => outgoing.destroy());
});

async function answer(incoming, outgoing) {
  // Where others reach it, compare incoming.headers.authorization with `Bearer <the stored credential>` first.
  const body = Buffer.concat(await incoming.toArray());
  const response = await handler.fetch(
    new Request(`http://127.0.0.1${incoming.url}`, {
      method: incoming.method,
      headers: incoming.headers,
      ...(body.length === 0 ? {} : { body }),
    }),
  );
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) outgoing.end();
  else Readable.fromWeb(response.body).pipe(outgoing);
}

server.listen(Number(process.env.PORT ?? 8091), '127.0.0.1', () => {
  console.log(`The tools are at http://127.0.0.1:${server.address().port}/mcp`);
});
