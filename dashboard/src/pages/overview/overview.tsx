import { useMemo } from 'react';
import { Link } from 'wouter';
import { Chart } from '../../parts/chart.tsx';
import { Figure } from '../../parts/figure.tsx';
import { FirstMessage } from '../../parts/first-message.tsx';
import { compact, count, duration, money, plural } from '../../parts/format.ts';
import { Page, Section, Unread, UnreadPage, Waiting } from '../../parts/page.tsx';
import { useRead } from '../../server/queries.ts';
import type { List, Overview, SessionRow } from '../../server/types.ts';
import { SessionTable } from '../sessions/session-table.tsx';
import { Problems } from './problems.tsx';

export default function OverviewPage() {
  const overview = useRead<Overview>('/dashboard/api/overview', { refetchInterval: 5_000 });
  const sessions = useRead<List<SessionRow>>('/dashboard/api/sessions?limit=8', { refetchInterval: 5_000 });
  if (overview.data === undefined) return <UnreadPage title="Overview" error={overview.error} />;
  const { turns, budget, pending_approvals: pending } = overview.data;
  // In a busy hour the server looks for failures only among the newest turns, the sampled ones.
  const failureRate = turns.sampled === 0 ? 0 : turns.failed / turns.sampled;
  return (
    <Page title="Overview" aside="the last hour">
      <Unread what="The last hour" query={overview} />
      <div className="mb-8 grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line *:last:max-lg:col-span-2 lg:grid-cols-5">
        <Figure label="Turns per minute" value={perMinute(turns.count)} note={plural(turns.count, 'turn')} />
        <Figure
          label="Errors"
          value={count(turns.failed)}
          note={
            turns.sampled === 0 ? 'no turns' : `${(failureRate * 100).toFixed(failureRate > 0 && failureRate < 0.1 ? 1 : 0)} % of turns`
          }
          tone={turns.failed > 0 ? 'bad' : 'plain'}
        />
        <Figure
          label="Turn time, p95"
          value={turns.p95_ms === null ? '–' : duration(turns.p95_ms)}
          note={turns.median_ms === null ? 'no turns' : `median ${duration(turns.median_ms)}`}
        />
        <Figure
          label="Total spend"
          value={money(budget.spent_micros)}
          note={capNote(budget)}
          percent={percentOfCap(budget)}
          tone={budget.state === 'exhausted' ? 'bad' : 'plain'}
        />
        <Figure
          label="Waiting for approval"
          value={count(pending)}
          note={
            pending === 0 ? (
              'none pending'
            ) : (
              <Link to="/approvals" className="text-accent underline underline-offset-2">
                Answer them
              </Link>
            )
          }
          tone={pending > 0 ? 'warn' : 'plain'}
        />
      </div>
      <Section title="Turns">
        <TurnChart overview={overview.data} />
      </Section>
      <Problems {...overview.data} />
      <Section
        title="Latest sessions"
        actions={
          <Link to="/sessions" className="text-accent hover:underline">
            All sessions
          </Link>
        }
      >
        <Unread what="The sessions" query={sessions} />
        {sessions.data === undefined ? (
          sessions.errorUpdateCount === 0 && <Waiting />
        ) : sessions.data.data.length === 0 ? (
          <FirstMessage title="No conversations yet." />
        ) : (
          <SessionTable sessions={sessions.data.data} />
        )}
      </Section>
    </Page>
  );
}

function TurnChart({ overview }: { overview: Overview }) {
  const { now, turns } = overview;
  const { times, series } = useMemo(() => {
    // In seconds since 1970, as the chart takes them. The server leaves out the minutes without a turn.
    const lastMinute = Math.floor(Date.parse(now) / 60_000) * 60;
    const minutes = Array.from({ length: 60 }, (_, index) => lastMinute - (59 - index) * 60);
    const withTurns = new Map(turns.minutes.map((each) => [Date.parse(each.minute) / 1000, each]));
    const failed = minutes.map((minute) => withTurns.get(minute)?.failed ?? 0);
    return {
      times: minutes,
      series: [
        { label: 'Failed', colour: '--color-bad', values: failed },
        {
          label: 'Answered',
          colour: '--color-accent',
          values: minutes.map((minute, index) => (withTurns.get(minute)?.turns ?? 0) - (failed[index] ?? 0)),
        },
      ],
    };
  }, [now, turns]);
  return (
    <Chart
      label={`Turns of each minute: ${count(turns.count)} in the last hour, ${turns.failed} failed`}
      times={times}
      series={series}
      step={60}
      format={compact}
    />
  );
}

function perMinute(turns: number): string {
  const rate = turns / 60;
  return rate === 0 ? '0' : rate < 10 ? rate.toFixed(1) : compact(rate);
}

function percentOfCap(budget: Overview['budget']): number | undefined {
  return budget.credits_micros === null && budget.total_tokens_cap === null ? undefined : budget.percent_used;
}

function capNote(budget: Overview['budget']): string {
  const { percent_used: percent, credits_micros: credits, tokens_used: tokens, total_tokens_cap: cap } = budget;
  // The percentage is that of whichever is closer to its cap.
  const isOfTokens = cap !== null && (credits === null || tokens * 100 >= cap * percent);
  if (isOfTokens) return `${compact(tokens)} of ${compact(cap)} tokens`;
  return credits === null ? 'no cap is set' : `${percent} % of ${money(credits)}`;
}
