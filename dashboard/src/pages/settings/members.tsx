import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Confirm } from '../../parts/dialog.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Section, Waiting } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { refresh, useAll, useMay, useSignedIn } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Invitation, Member } from '../../server/types.ts';
import { InviteMember } from './invite-member.tsx';
import { MemberTable } from './member-table.tsx';

interface Change {
  method: string;
  path: string;
  body?: unknown;
  /** Said once the change is made. */
  notice: string;
}

/** A change that a person has to confirm first. */
interface Question {
  title: string;
  text: string;
  action: string;
  change: Change;
}

export function Members() {
  const mayChange = useMay('members:write');
  const { user } = useSignedIn();
  const members = useAll<Member>('/api/members');
  const invitations = useAll<Invitation>('/api/invitations');
  const [inviting, setInviting] = useState(false);
  const [question, setQuestion] = useState<Question>();
  const change = useMutation({
    mutationFn: ({ path, method, body }: Change) => request(method, path, body === undefined ? {} : { body }),
    onSuccess: async (_answer, { notice }) => {
      setQuestion(undefined);
      notify(notice);
      await refresh('/api/members', '/api/invitations', '/dashboard/session');
    },
    onError: notifyError,
  });
  const changeRole = (member: Member, role: string) => {
    const next = { method: 'PATCH', path: `/api/members/${member.id}`, body: { role }, notice: `${member.name} is ${role} now.` };
    if (member.id === user.id) {
      const text = 'You may lose permissions that only someone else can give back.';
      setQuestion({ title: `Change your own role to ${role}?`, text, action: 'Change role', change: next });
    } else if (role === 'owner') {
      const text = 'Owners can do everything, including removing you.';
      setQuestion({ title: `Make ${member.name} an owner?`, text, action: 'Make owner', change: next });
    } else {
      // Asked too: in some browsers an arrow key alone chooses the next role.
      const text = role === 'admin' ? 'Admins can do everything but make or remove owners.' : 'Members can read and converse.';
      setQuestion({ title: `Change the role of ${member.name} to ${role}?`, text, action: 'Change role', change: next });
    }
  };
  const remove = ({ id, name }: Member) =>
    setQuestion({
      title: `Remove ${name}?`,
      text: 'They lose access immediately. Their actions stay in the audit log.',
      action: 'Remove member',
      change: { method: 'DELETE', path: `/api/members/${id}`, notice: `${name} was removed.` },
    });
  const withdraw = (invitation: Invitation) =>
    setQuestion({
      title: `Withdraw the invitation of ${inviteeOf(invitation)}?`,
      text: 'Its link no longer works. You can invite them again.',
      action: 'Withdraw',
      change: { method: 'DELETE', path: `/api/invitations/${invitation.id}`, notice: 'The invitation was withdrawn.' },
    });
  return (
    <>
      <Section
        title="Members"
        actions={
          mayChange && (
            <Button kind="primary" onClick={() => setInviting(true)}>
              Invite someone
            </Button>
          )
        }
      >
        {members.error !== null && <Failure error={members.error} />}
        {members.isPending && <Waiting />}
        {members.data !== undefined && <MemberTable members={members.data} onRole={changeRole} onRemove={remove} />}
      </Section>
      <Section title="Open invitations">
        {invitations.error !== null && <Failure error={invitations.error} />}
        {invitations.data !== undefined && <OpenInvitations invitations={invitations.data} onWithdraw={withdraw} />}
      </Section>
      {inviting && <InviteMember onClose={() => setInviting(false)} />}
      {question !== undefined && (
        <Confirm
          title={question.title}
          text={question.text}
          action={question.action}
          busy={change.isPending}
          onConfirm={() => change.mutate(question.change)}
          onClose={() => setQuestion(undefined)}
        />
      )}
    </>
  );
}

interface OpenInvitationsProps {
  invitations: readonly Invitation[];
  onWithdraw(invitation: Invitation): void;
}

function OpenInvitations({ invitations, onWithdraw }: OpenInvitationsProps) {
  const mayChange = useMay('members:write');
  if (invitations.length === 0)
    return (
      <Empty
        title="No open invitations."
        text="An invitation is a link that works once, for seven days; no mail is sent. From a terminal:"
        command={curlCommand('POST', '/api/invitations', { email: 'grace@example.com', role: 'member' })}
      />
    );
  return (
    <ul className="panel divide-y divide-line">
      {invitations.map((invitation) => (
        <li key={invitation.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
          <span className="min-w-0 font-medium [overflow-wrap:anywhere]">{inviteeOf(invitation)}</span>
          <span className="text-dim">{invitation.role}</span>
          <span className="text-dim">
            expires <Time at={invitation.expires_at} />
          </span>
          {mayChange && (
            <Button
              kind="danger"
              className="ml-auto"
              aria-label={`Withdraw the invitation of ${inviteeOf(invitation)}`}
              onClick={() => onWithdraw(invitation)}
            >
              Withdraw
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}

function inviteeOf({ email }: Invitation): string {
  return email ?? 'whoever has the link';
}
