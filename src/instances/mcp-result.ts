import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';

/** The result of an MCP tool, as text for the model. */
export function toolResultText({ content, structuredContent }: CallToolResult): string {
  const text = content.map(describe).join('\n');
  if (text !== '' || structuredContent === undefined) return text;
  return JSON.stringify(structuredContent);
}

function describe(block: ContentBlock): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
    case 'audio':
      return `[${block.type}, ${block.mimeType}, ${Math.floor((block.data.length * 3) / 4)} bytes, not shown]`;
    case 'resource':
      return 'text' in block.resource ? block.resource.text : `[resource ${block.resource.uri}, binary, not shown]`;
    case 'resource_link':
      return `[resource ${block.uri}${block.description === undefined ? '' : `: ${block.description}`}]`;
  }
}
