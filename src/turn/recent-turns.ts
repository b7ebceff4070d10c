import { sql } from 'kysely';
import type { Db } from '../database/database.ts';

export interface RecentTurns {
  /** Oldest first; minutes without a turn are absent. */
  minutes: { minute: Date; turns: number; failed: number }[];
  turns: number;
  failed: number;
  /** Of the turns that did not fail, from the message to the end; null without any. */
  medianMs: number | null;
  p95Ms: number | null;
  /** How many turns were looked at; fewer than there were when they are many. */
  sampled: number;
  /** The newest that failed, newest first: where each failure is in its log, and what it was. */
  failures: Failure[];
}

interface Failure {
  sessionId: string;
  seq: number;
  agent: string;
  code: string;
  /** What the provider said, for example: part of the log, and cut to the length of a line. */
  message: string;
  at: Date;
}

/** Failures and durations are taken from at most this many of the newest turns, so that a busy hour costs no more than that. */
const sampleSize = 5_000;
const shownFailures = 5;
const messageLength = 200;

/** Statistics of an organization's turns that ended since then. Reads the index of ended turns, and each turn's last event by its key. */
export async function readRecentTurns(db: Db, orgId: number, since: Date): Promise<RecentTurns> {
  const { rows: minutes } = await sql<{ minute: Date; turns: number }>`
    select date_trunc('minute', ended_at) as minute, count(*)::integer as turns from turns
    where org_id = ${orgId} and state = 'ended' and ended_at >= ${since} group by 1 order by 1`.execute(db);
  const { rows: sampled } = await sql<{ at: Date; minute: Date; ms: number; failure: Omit<Failure, 'at'> | null }>`
    select t.ended_at as at, date_trunc('minute', t.ended_at) as minute, extract(epoch from t.ended_at - t.created_at)::float8 * 1000 as ms,
      case when e.type = 'turn-failed' then json_build_object('sessionId', t.session_id, 'seq', t.last_seq, 'code', e.data->>'code',
        'message', left(e.data->>'message', ${messageLength}), 'agent', (select slug from agents where id = t.agent_id)) end as failure
    from (
      select session_id, agent_id, last_seq, created_at, ended_at from turns
      where org_id = ${orgId} and state = 'ended' and ended_at >= ${since} order by ended_at desc limit ${sampleSize}
    ) t left join events e on e.session_id = t.session_id and e.seq = t.last_seq order by t.ended_at desc`.execute(db);
  const failures = sampled.flatMap(({ failure, at, minute }) => (failure === null ? [] : [{ ...failure, at, minute }]));
  const failuresOfMinute = Map.groupBy(failures, ({ minute }) => minute.getTime());
  const durations = sampled
    .filter(({ failure }) => failure === null)
    .map(({ ms }) => ms)
    .sort((left, right) => left - right);
  return {
    minutes: minutes.map(({ minute, turns }) => ({ minute, turns, failed: failuresOfMinute.get(minute.getTime())?.length ?? 0 })),
    turns: minutes.reduce((sum, { turns }) => sum + turns, 0),
    failed: failures.length,
    medianMs: quantile(durations, 0.5),
    p95Ms: quantile(durations, 0.95),
    sampled: sampled.length,
    failures: failures.slice(0, shownFailures),
  };
}

function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
}
