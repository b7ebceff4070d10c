import type { JsonObject } from '../../text/json.ts';
import { valueLength } from './estimate-tokens.ts';

/**
 * What OpenRouter says of a model's thoughts: signed and encrypted entries, which it wants back in their order with the calls that
 * came of them. A stream brings an entry in pieces.
 */
export class ReasoningDetails {
  readonly entries: JsonObject[] = [];
  /** Not part of what the answer has received, because most of it came as the text of a thought too. */
  characters = 0;
  private readonly latest = new Map<string, JsonObject>();

  add(piece: JsonObject): void {
    this.characters += valueLength(piece);
    const key = JSON.stringify([piece.type, piece.index]);
    const entry = this.latest.get(key);
    // Calls that were made at once may each have an entry under the same index.
    if (entry === undefined || (entry.id && piece.id && entry.id !== piece.id)) {
      const begun = { ...piece };
      this.latest.set(key, begun);
      this.entries.push(begun);
      return;
    }
    for (const field of ['text', 'summary', 'data']) {
      const more = piece[field];
      const said = entry[field];
      if (typeof more === 'string') entry[field] = typeof said === 'string' ? said + more : more;
    }
    // Most pieces have no signature, or an empty one.
    for (const field of ['id', 'format', 'signature']) if (piece[field]) entry[field] = piece[field];
  }
}
