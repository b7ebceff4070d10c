import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Toggle } from '../../parts/field.tsx';
import { More, usePages } from '../../parts/more.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { Time } from '../../parts/time.tsx';
import { forget, useMay, useSignedIn } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { ApiKey } from '../../server/types.ts';
import { NewKey } from './new-key.tsx';

export default function KeysPage() {
  const query = useQueryState();
  const may = useMay('api_keys:write');
  const [revoking, setRevoking] = useState<ApiKey>();
  const pages = usePages<ApiKey>('/api/api_keys?limit=50', 10_000);
  const revoked = query.read('revoked') === 'shown';
  const keys = revoked ? pages.items : pages.items.filter((key) => key.revoked_at === null);
  const revoke = useMutation({
    mutationFn: (id: number) => request('DELETE', `/api/api_keys/${id}`),
    onSuccess: async () => {
      setRevoking(undefined);
      notify('The key was revoked.');
      await forget('/api/api_keys');
    },
    onError: notifyError,
  });
  return (
    <Page
      title="API keys"
      actions={
        <>
          <Toggle label="Show revoked" checked={revoked} onChange={(next) => query.write({ revoked: next ? 'shown' : '' })} />
          {may && (
            <Button kind="primary" onClick={() => query.write({ new: '1' })}>
              <Plus size={15} /> New key
            </Button>
          )}
        </>
      }
    >
      {pages.error !== null && <Failure error={pages.error} />}
      {pages.isPending && <Waiting />}
      {pages.isSuccess && keys.length === 0 && !pages.hasNextPage && (
        <Empty
          title="No keys yet."
          text="Your backend authenticates with an API key. Create one here, or from a terminal with another key:"
          command="npm exec parley -- keys create Backend --scopes sessions:read,session_tokens:mint"
        />
      )}
      {keys.length > 0 && (
        <div className="panel overflow-hidden">
          <table className="grid-table">
            <thead>
              <tr>
                <th>Name</th>
                <th className="max-sm:hidden">Prefix</th>
                <th className="max-md:hidden">Scopes</th>
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
                  <td className="max-w-0 w-1/3 truncate font-medium max-sm:w-full" title={key.name}>
                    {key.name}
                  </td>
                  <td className="max-sm:hidden">
                    <CopyId value={key.prefix} />
                  </td>
                  <td className="max-md:hidden">
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
                      may && (
                        <Button kind="danger" className="-my-1" onClick={() => setRevoking(key)}>
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
      )}
      <More pages={pages} />
      {query.read('new') !== '' && <NewKey onClose={() => query.write({ new: '' })} />}
      {revoking !== undefined && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          text="Requests with this key will be refused. This cannot be undone."
          action="Revoke key"
          busy={revoke.isPending}
          onConfirm={() => revoke.mutate(revoking.id)}
          onClose={() => setRevoking(undefined)}
        />
      )}
    </Page>
  );
}

function Scopes({ scopes }: { scopes: readonly string[] }) {
  const { scopes: own, role } = useSignedIn();
  const [isOpen, setOpen] = useState(false);
  // An owner has every scope there is.
  if (role === 'owner' && own.every((scope) => scopes.includes(scope))) return <span title={scopes.join('\n')}>every scope</span>;
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
