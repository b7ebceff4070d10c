import { Button } from '../../parts/button.tsx';
import { Select } from '../../parts/field.tsx';
import { Time } from '../../parts/time.tsx';
import { useMay, useSignedIn } from '../../server/queries.ts';
import type { Member } from '../../server/types.ts';
import { roles } from '../../server/values.ts';

interface MemberTableProps {
  members: readonly Member[];
  onRole(member: Member, role: string): void;
  onRemove(member: Member): void;
}

export function MemberTable({ members, onRole, onRemove }: MemberTableProps) {
  const mayChange = useMay('members:write');
  const { user } = useSignedIn();
  const ownerCount = members.filter(({ role }) => role === 'owner').length;
  return (
    <div className="panel overflow-hidden">
      <table className="grid-table">
        <thead>
          <tr>
            <th>Name</th>
            <th className="max-sm:hidden">E-mail</th>
            <th>Role</th>
            <th className="number max-lg:hidden">Joined</th>
            <th>
              <span className="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {members.map((member) => {
            const isLastOwner = member.role === 'owner' && ownerCount === 1;
            return (
              <tr key={member.id}>
                <td className="w-full max-w-0 font-medium [overflow-wrap:anywhere] sm:w-auto sm:max-w-60 sm:[overflow-wrap:break-word]">
                  {member.name} {member.id === user.id && <span className="font-normal text-faint">you</span>}
                  <span className="block truncate font-normal text-dim sm:hidden" title={member.email}>
                    {member.email}
                  </span>
                </td>
                <td className="max-w-60 truncate text-dim max-sm:hidden" title={member.email}>
                  {member.email}
                </td>
                <td>
                  {mayChange ? (
                    <Select
                      label={`Role of ${member.email}`}
                      value={member.role}
                      onChange={(role) => onRole(member, role)}
                      options={roles.map((value) => ({ value, label: value }))}
                    />
                  ) : (
                    member.role
                  )}
                </td>
                <td className="number text-dim max-lg:hidden">
                  <Time at={member.created_at} />
                </td>
                <td className="number">
                  {mayChange && (
                    <Button
                      kind="danger"
                      aria-label={`Remove ${member.name}`}
                      disabled={isLastOwner}
                      title={isLastOwner ? 'The last owner cannot be removed' : undefined}
                      onClick={() => onRemove(member)}
                    >
                      Remove
                    </Button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
