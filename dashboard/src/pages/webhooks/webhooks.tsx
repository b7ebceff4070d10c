import { Plus } from 'lucide-react';
import { Link } from 'wouter';
import { State } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Empty, Failure, Page, Section, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { useMay, useRead } from '../../server/queries.ts';
import type { SystemInformation, WebhookEndpoint, WebhookList } from '../../server/types.ts';
import { EndpointForm } from './endpoint-form.tsx';
import { SignatureChecker } from './signature-checker.tsx';

export default function WebhooksPage() {
  const query = useQueryState();
  const mayCreate = useMay('webhooks:write');
  const { data, error, isPending } = useRead<WebhookList>('/api/webhook_endpoints', { refetchInterval: 5_000 });
  const limit = useRead<SystemInformation>('/dashboard/api/system').data?.webhook_max_failures ?? 25;
  return (
    <Page
      title="Webhooks"
      actions={
        mayCreate && (
          <Button kind="primary" onClick={() => query.write({ new: '1' })}>
            <Plus size={15} /> New endpoint
          </Button>
        )
      }
    >
      {error !== null && <Failure error={error} />}
      {isPending && <Waiting />}
      {data?.webhook_endpoints.length === 0 && !mayCreate && (
        <Empty title="No endpoints yet." text="An owner or admin can create one, so that Parley tells your backend about turns." />
      )}
      {data?.webhook_endpoints.length === 0 && mayCreate && (
        <Empty
          title="No endpoints yet."
          text="Parley can tell your backend when turns complete, fail or wait for approval. Create an endpoint here, or from a terminal:"
          command={curlCommand('POST', '/api/webhook_endpoints', { name: 'Backend', url: 'https://example.com/hooks' })}
        />
      )}
      {data !== undefined && data.webhook_endpoints.length > 0 && (
        <div className="panel mb-8 overflow-hidden">
          <table className="grid-table">
            <thead>
              <tr>
                <th>Endpoint</th>
                <th>State</th>
                <th className="max-md:hidden">Events</th>
                <th className="number">Failures</th>
              </tr>
            </thead>
            <tbody>
              {data.webhook_endpoints.map((endpoint) => (
                <tr key={endpoint.id}>
                  <td className="max-w-0 w-1/2">
                    <Link to={`/webhooks/${endpoint.id}`} className="font-medium [overflow-wrap:anywhere] hover:text-accent">
                      {endpoint.name}
                    </Link>
                    <p className="truncate text-dim">{endpoint.url}</p>
                  </td>
                  <td>
                    <State name={endpointState(endpoint)} />
                  </td>
                  <td className="text-dim max-md:hidden">{endpoint.event_types.length === 0 ? 'all' : endpoint.event_types.length}</td>
                  <td className={`number ${endpoint.consecutive_failures > 0 ? 'text-bad' : 'text-dim'}`}>
                    {endpoint.consecutive_failures} of {limit}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!isPending && (
        <Section title="Check a signature" hint="Nothing you enter here leaves this page.">
          <SignatureChecker />
        </Section>
      )}
      {query.read('new') !== '' && data !== undefined && (
        <EndpointForm eventTypes={data.event_types} onClose={() => query.write({ new: '' })} />
      )}
    </Page>
  );
}

export function endpointState({ enabled, consecutive_failures: failures }: WebhookEndpoint): string {
  if (!enabled) return 'disabled';
  return failures > 0 ? 'failing' : 'enabled';
}
