import type { Database } from '../database/database.ts';
import type { FoldedEvent, NewEvent, StoredEvent } from './events.ts';

export interface Page<Event> {
  events: Event[];
  hasMore: boolean;
}

interface FoldedRow {
  seq: number;
  turn_id: string;
  type: NewEvent['type'];
  data: NewEvent['data'];
}

type StoredRow = FoldedRow & { created_at: Date };
/** With the sum of the sizes up to this row. */
type Summed<Row> = Row & { size: number };

const pageLength = 500;
const pageBytes = 1024 * 1024;
const foldedColumns = 'seq, turn_id, type, data';
const storedColumns = `${foldedColumns}, created_at`;

/**
 * Fewer events where they are long, by their stored size. Compressed data is counted twentyfold: unpacked, it may be twenty times as
 * long, or even a hundred times.
 */
const pageOf = (columns: string, condition = 'true') => `select ${columns}, size from (
    select *, sum(length) over (order by seq rows unbounded preceding) as size from (
      select ${columns}, pg_column_size(data) * case when pg_column_compression(data) is null then 1 else 20 end as length
      from events where session_id = $1 and seq > $2 and ${condition} order by seq limit $3) as events) as events
  where size - length < $4 order by seq`;

const eventsStatement = {
  name: 'read-events',
  text: `select ${storedColumns} from events where session_id = $1 and seq > $2 order by seq limit $3`,
};
const pageStatement = { name: 'read-page', text: pageOf(storedColumns) };
const foldStatement = {
  name: 'read-page-to-fold',
  text: pageOf(
    foldedColumns,
    `(type not in ('turn-started', 'turn-ended') or turn_id = $5
      or turn_id = (select active_turn_id from sessions where id = $1) or seq = (select last_seq from sessions where id = $1))`,
  ),
};

export async function readEvents(database: Database, sessionId: string, after: number, limit: number): Promise<StoredEvent[]> {
  return (await database.prepared<StoredRow>(eventsStatement, [sessionId, after, limit])).map(toStoredEvent);
}

export async function readPage(database: Database, sessionId: string, after: number): Promise<Page<StoredEvent>> {
  const rows = await database.prepared<Summed<StoredRow>>(pageStatement, [sessionId, after, pageLength, pageBytes]);
  return { events: rows.map(toStoredEvent), hasMore: isFull(rows) };
}

/**
 * Leaves out what a state keeps nothing of: the first and last events of turns that are over, and the times of events. In a session of
 * many turns that is more than half of the work. The turn that is about to run, the active one and the last event are there in full.
 */
export async function readPageToFold(database: Database, sessionId: string, after: number, turnId: string): Promise<Page<FoldedEvent>> {
  const rows = await database.prepared<Summed<FoldedRow>>(foldStatement, [sessionId, after, pageLength, pageBytes, turnId]);
  return { events: rows.map(toFoldedEvent), hasMore: isFull(rows) };
}

export async function* inPages<Event extends { seq: number }>(
  after: number,
  read: (after: number) => Promise<Page<Event>>,
): AsyncGenerator<Event[]> {
  for (let cursor = after; ; ) {
    const { events, hasMore } = await read(cursor);
    if (events.length > 0) yield events;
    if (!hasMore) return;
    cursor = events.at(-1)?.seq ?? cursor;
  }
}

function isFull(rows: readonly Summed<FoldedRow>[]): boolean {
  return rows.length === pageLength || (rows.at(-1)?.size ?? 0) >= pageBytes;
}

/** The log holds only what we wrote: its rows are events by construction. */
function toFoldedEvent({ seq, turn_id: turnId, type, data }: FoldedRow): FoldedEvent {
  return { seq, turnId, type, data } as FoldedEvent;
}

function toStoredEvent({ seq, turn_id: turnId, created_at: createdAt, type, data }: StoredRow): StoredEvent {
  return { seq, turnId, createdAt, type, data } as StoredEvent;
}
