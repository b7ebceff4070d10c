import { useState } from 'react';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { Time } from '../../parts/time.tsx';
import { useMay, useSignedIn } from '../../server/queries.ts';
import type { ApiKey } from '../../server/types.ts';

interface KeyTableProps {
  keys: readonly ApiKey[];
  onRevoke(key: ApiKey): void;
}

export function KeyTable({ keys, onRevoke }: KeyTableProps) {
  const mayRevoke = useMay('api_keys:write');
  return (
    <div className="panel overflow-hidden">
      <table className="grid-table">
        <thead>
          <tr>
            <th>Name</th>
            <th className="max-sm:hidden">Prefix</th>
            <th className="max-lg:hidden">Scopes</th>
            <th className="number">Last used</th>
            <th className="number max-lg:hidden">Created</th>
            <th>
              <span className="sr-only">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id} className={key.revoked_at === null ? '' : 'text-faint'}>
              <td className="w-1/3 max-w-0 max-lg:w-full">
                <span className="block truncate font-medium" title={key.name}>
                  {key.name}
                </span>
                {/* What has no column on a smaller screen: it is what tells one key from another before one is revoked. */}
                <span className="block sm:hidden">
                  <CopyId value={key.prefix} />
                </span>
                <span className="block lg:hidden">
                  <Scopes scopes={key.scopes} />
                </span>
              </td>
              <td className="max-sm:hidden">
                <CopyId value={key.prefix} />
              </td>
              <td className="max-lg:hidden">
                <Scopes scopes={key.scopes} />
              </td>
              <td className="number text-dim">
                <Time at={key.last_used_at} />
              </td>
              <td className="number text-dim max-lg:hidden">
                <Time at={key.created_at} />
              </td>
              <td className="number">
                {key.revoked_at !== null ? (
                  <Badge>revoked</Badge>
                ) : (
                  mayRevoke && (
                    <Button kind="danger" className="-my-1" aria-label={`Revoke ${key.name}`} onClick={() => onRevoke(key)}>
                      Revoke
                    </Button>
                  )
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Scopes({ scopes }: { scopes: readonly string[] }) {
  const { scopes: ownScopes, role } = useSignedIn();
  const [isOpen, setOpen] = useState(false);
  // Of all roles only an owner has every scope there is, and so the complete list to compare with.
  if (role === 'owner' && ownScopes.every((scope) => scopes.includes(scope))) return <span title={scopes.join('\n')}>every scope</span>;
  const shown = isOpen ? scopes : scopes.slice(0, 3);
  return (
    <span className="flex flex-wrap gap-1">
      {scopes.length === 0 && <span className="text-faint">conversations only</span>}
      {shown.map((scope) => (
        <Badge key={scope}>{scope}</Badge>
      ))}
      {shown.length < scopes.length && (
        <button type="button" className="text-dim hover:text-accent" onClick={() => setOpen(true)}>
          and {scopes.length - shown.length} more
        </button>
      )}
    </span>
  );
}
