import { Link } from 'wouter';
import { ApprovalCard } from '../../conversation/approval-card.tsx';
import { managedPath } from '../../conversation/use-conversation.ts';
import { LinkButton } from '../../parts/button.tsx';
import { plural } from '../../parts/format.ts';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { useRead, useSignedIn } from '../../server/queries.ts';
import type { Approval } from '../../server/types.ts';

/** All requests for approval, the oldest first. The keys 1, 2 and 3 answer the first one. */
export default function ApprovalsPage() {
  const { organization } = useSignedIn();
  const { data, error } = useRead<{ data: Approval[]; is_partial: boolean }>('/dashboard/api/approvals', { refetchInterval: 2_000 });
  const waiting = data?.data ?? [];
  return (
    <Page
      title="Approvals"
      tab={waiting.length === 0 ? 'Approvals' : `(${waiting.length}) Approvals`}
      {...(waiting.length === 0 ? {} : { aside: `${data?.is_partial ? 'the oldest ' : ''}${plural(waiting.length, 'request')}` })}
    >
      {error !== null && <Failure error={error} />}
      {data === undefined && error === null && <Waiting />}
      {data !== undefined && waiting.length === 0 && (
        <Empty
          title="Nothing is waiting for approval."
          text="A session pauses here when its agent wants to use a guarded tool. To see one, say this in the playground:"
          command={'/tool bash {"command":"date"}'}
        >
          <LinkButton to="/playground" kind="primary">
            Open the playground
          </LinkButton>
        </Empty>
      )}
      <ol className="flex max-w-3xl flex-col gap-4">
        {waiting.map((approval, index) => (
          <li key={approval.request_id}>
            <ApprovalCard
              base={managedPath(organization.slug, approval.agent, approval.session_id)}
              request={{
                requestId: approval.request_id,
                tool: approval.tool,
                message: approval.message,
                options: approval.options,
                input: approval.input,
              }}
              keys={index === 0}
            >
              <Link to={`/sessions/${approval.session_id}`} className="text-accent underline underline-offset-2">
                Session
              </Link>{' '}
              of {approval.agent}
              {approval.end_user_id !== null && <> for {approval.end_user_id}</>}, <Time at={approval.created_at} />
            </ApprovalCard>
          </li>
        ))}
      </ol>
      {data?.is_partial && (
        <p className="mt-4 text-dim">
          More are waiting and appear as these are answered.{' '}
          <Link to="/sessions?state=waiting" className="text-accent underline underline-offset-2">
            All sessions that wait
          </Link>
        </p>
      )}
    </Page>
  );
}
