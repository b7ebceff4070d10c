import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Select } from '../../parts/field.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Section, Waiting } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { forget, useMay, useRead, useSignedIn } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Invitation, List, Member } from '../../server/types.ts';
import { InviteMember } from './invite-member.tsx';
import { roleChoices } from './roles.ts';

interface Change {
  method: string;
  path: string;
  body?: unknown;
  /** Said when it is. */
  done: string;
}

interface Question {
  title: string;
  text: string;
  action: string;
  change: Change;
}

export function Members() {
  const may = useMay('members:write');
  const { user } = useSignedIn();
  const members = useRead<List<Member>>('/api/members?limit=200');
  const invitations = useRead<List<Invitation>>('/api/invitations?limit=200');
  const [inviting, setInviting] = useState(false);
  const [asking, setAsking] = useState<Question>();
  const change = useMutation({
    mutationFn: ({ path, method, body }: Change) => request(method, path, body === undefined ? {} : { body }),
    onSuccess: async (_answer, { done }) => {
      setAsking(undefined);
      notify(done);
      await forget('/api/members', '/api/invitations', '/dashboard/session');
    },
    onError: notifyError,
  });
  const open = invitations.data?.data ?? [];
  const owners = members.data?.data.filter(({ role }) => role === 'owner').length ?? 0;
  const changeRole = (member: Member, role: string) => {
    const next = { method: 'PATCH', path: `/api/members/${member.id}`, body: { role }, done: `${member.name} is ${role} now.` };
    if (member.id === user.id) {
      const text = 'You may lose permissions that only someone else can give back.';
      setAsking({ title: `Change your own role to ${role}?`, text, action: 'Change role', change: next });
    } else if (role === 'owner') {
      const text = 'Owners can do everything, including removing you.';
      setAsking({ title: `Make ${member.name} an owner?`, text, action: 'Make owner', change: next });
    } else change.mutate(next);
  };
  return (
    <>
      <Section
        title="Members"
        actions={
          may && (
            <Button kind="primary" onClick={() => setInviting(true)}>
              Invite someone
            </Button>
          )
        }
      >
        {members.error !== null && <Failure error={members.error} />}
        {members.isPending && <Waiting />}
        {members.data !== undefined && (
          <div className="panel overflow-hidden">
            <table className="grid-table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th className="max-sm:hidden">E-mail</th>
                  <th>Role</th>
                  <th className="number max-md:hidden">Joined</th>
                  <th>
                    <span className="sr-only">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {members.data.data.map((member) => (
                  <tr key={member.id}>
                    <td className="w-full max-w-0 font-medium [overflow-wrap:anywhere] sm:w-auto sm:max-w-60">
                      {member.name} {member.id === user.id && <span className="font-normal text-faint">you</span>}
                      <span className="block truncate font-normal text-dim sm:hidden" title={member.email}>
                        {member.email}
                      </span>
                    </td>
                    <td className="max-w-60 truncate text-dim max-sm:hidden" title={member.email}>
                      {member.email}
                    </td>
                    <td>
                      {may ? (
                        <Select
                          label={`Role of ${member.email}`}
                          value={member.role}
                          onChange={(role) => changeRole(member, role)}
                          options={roleChoices}
                        />
                      ) : (
                        member.role
                      )}
                    </td>
                    <td className="number text-dim max-md:hidden">
                      <Time at={member.created_at} />
                    </td>
                    <td className="number">
                      {may && (
                        <Button
                          kind="danger"
                          disabled={member.role === 'owner' && owners === 1}
                          title={member.role === 'owner' && owners === 1 ? 'The last owner cannot be removed' : undefined}
                          onClick={() =>
                            setAsking({
                              title: `Remove ${member.name}?`,
                              text: 'They lose access immediately. Their actions stay in the audit log.',
                              action: 'Remove member',
                              change: { method: 'DELETE', path: `/api/members/${member.id}`, done: `${member.name} was removed.` },
                            })
                          }
                        >
                          Remove
                        </Button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Section>
      <Section title="Open invitations">
        {invitations.error !== null && <Failure error={invitations.error} />}
        {invitations.data === undefined ? null : open.length === 0 ? (
          <Empty
            title="No open invitations."
            text="An invitation is a link that works once, for seven days; no mail is sent. From a terminal:"
            command={`curl -s -X POST ${window.location.origin}/api/invitations -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '{"email":"grace@example.com","role":"member"}'`}
          />
        ) : (
          <ul className="panel divide-y divide-line">
            {open.map((invitation) => (
              <li key={invitation.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
                <span className="min-w-0 font-medium [overflow-wrap:anywhere]">{invitation.email ?? 'whoever has the link'}</span>
                <span className="text-dim">{invitation.role}</span>
                <span className="text-dim">
                  expires <Time at={invitation.expires_at} />
                </span>
                {may && (
                  <Button
                    kind="danger"
                    className="ml-auto"
                    onClick={() =>
                      setAsking({
                        title: `Withdraw the invitation of ${invitation.email ?? 'whoever has the link'}?`,
                        text: 'Its link no longer works. You can invite them again.',
                        action: 'Withdraw',
                        change: { method: 'DELETE', path: `/api/invitations/${invitation.id}`, done: 'The invitation was withdrawn.' },
                      })
                    }
                  >
                    Withdraw
                  </Button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Section>
      {inviting && <InviteMember onClose={() => setInviting(false)} />}
      {asking !== undefined && (
        <Confirm
          title={asking.title}
          text={asking.text}
          action={asking.action}
          busy={change.isPending}
          onConfirm={() => change.mutate(asking.change)}
          onClose={() => setAsking(undefined)}
        />
      )}
    </>
  );
}
