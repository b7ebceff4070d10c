import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Toggle } from '../../parts/field.tsx';
import { More, usePages } from '../../parts/more.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { refresh, useMay } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { ApiKey } from '../../server/types.ts';
import { KeyTable } from './key-table.tsx';
import { NewKey } from './new-key.tsx';

export default function KeysPage() {
  const query = useQueryState();
  const mayCreate = useMay('api_keys:write');
  const [revoking, setRevoking] = useState<ApiKey>();
  const pages = usePages<ApiKey>('/api/api_keys?limit=50', 10_000);
  const showsRevoked = query.read('revoked') === 'shown';
  const keys = showsRevoked ? pages.items : pages.items.filter((key) => key.revoked_at === null);
  const revoke = useMutation({
    mutationFn: (id: number) => request('DELETE', `/api/api_keys/${id}`),
    onSuccess: async () => {
      setRevoking(undefined);
      notify('The key was revoked.');
      await refresh('/api/api_keys');
    },
    onError: notifyError,
  });
  return (
    <Page
      title="API keys"
      actions={
        <>
          <Toggle label="Show revoked" checked={showsRevoked} onChange={(next) => query.write({ revoked: next ? 'shown' : '' })} />
          {mayCreate && (
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
          title={pages.items.length === 0 ? 'No keys yet.' : 'No active keys.'}
          text="Your backend authenticates with an API key. Create one here, or from a terminal with another key:"
          command="npm exec parley -- keys create Backend --scopes sessions:read,session_tokens:mint"
        />
      )}
      {keys.length > 0 && <KeyTable keys={keys} onRevoke={setRevoking} />}
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
