import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Select } from '../../parts/field.tsx';
import { notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Section } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { forget, useMay, useRead, useSignedIn } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Invitation, List, Member } from '../../server/types.ts';
import { InviteMember } from './invite-member.tsx';

export const roles = ['owner', 'admin', 'member'].map((value) => ({ value, label: value }));

export function Members() {
  const may = useMay('members:write');
  const { user } = useSignedIn();
  const members = useRead<List<Member>>('/api/members?limit=200');
  const invitations = useRead<List<Invitation>>('/api/invitations?limit=200');
  const [inviting, setInviting] = useState(false);
  const [removing, setRemoving] = useState<Member>();
  const change = useMutation({
    mutationFn: ({ path, method, body }: { path: string; method: string; body?: unknown }) =>
      request(method, path, body === undefined ? {} : { body }),
    onSuccess: async () => {
      setRemoving(undefined);
      await forget('/api/members', '/api/invitations', '/dashboard/session');
    },
    onError: notifyError,
  });
  const open = invitations.data?.data ?? [];
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
              {members.data?.data.map((member) => (
                <tr key={member.id}>
                  <td className="font-medium">
                    {member.name} {member.id === user.id && <span className="font-normal text-faint">you</span>}
                    <span className="block font-normal text-dim sm:hidden">{member.email}</span>
                  </td>
                  <td className="text-dim max-sm:hidden">{member.email}</td>
                  <td>
                    {may ? (
                      <Select
                        label={`Role of ${member.email}`}
                        value={member.role}
                        onChange={(role) => change.mutate({ method: 'PATCH', path: `/api/members/${member.id}`, body: { role } })}
                        options={roles}
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
                      <Button kind="danger" onClick={() => setRemoving(member)}>
                        Remove
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Section>
      <Section title="Open invitations">
        {open.length === 0 ? (
          <Empty
            title="No one is invited."
            text="An invitation is a link that works once, for seven days; nothing is mailed. From a terminal:"
            command={`curl -s -X POST ${window.location.origin}/api/invitations -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '{"email":"grace@example.com","role":"member"}'`}
          />
        ) : (
          <ul className="panel divide-y divide-line">
            {open.map((invitation) => (
              <li key={invitation.id} className="flex flex-wrap items-center gap-x-3 px-3 py-2">
                <span className="font-medium">{invitation.email ?? 'whoever has the link'}</span>
                <span className="text-dim">{invitation.role}</span>
                <span className="text-dim">
                  expires <Time at={invitation.expires_at} />
                </span>
                {may && (
                  <Button
                    kind="danger"
                    className="ml-auto"
                    onClick={() => change.mutate({ method: 'DELETE', path: `/api/invitations/${invitation.id}` })}
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
      {removing !== undefined && (
        <Confirm
          title={`Remove ${removing.name}?`}
          text="They lose access at once. What they did stays in the audit log."
          action="Remove member"
          busy={change.isPending}
          onConfirm={() => change.mutate({ method: 'DELETE', path: `/api/members/${removing.id}` })}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </>
  );
}
