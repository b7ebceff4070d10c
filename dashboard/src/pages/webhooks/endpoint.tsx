import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { useParams } from 'wouter';
import { State } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Fact } from '../../parts/fact.tsx';
import { Select } from '../../parts/field.tsx';
import { More, usePages } from '../../parts/more.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Empty, Failure, MissingPage, Page, Section, UnreadPage, Waiting } from '../../parts/page.tsx';
import { useQueryState, withQuery } from '../../parts/query-state.ts';
import { Time } from '../../parts/time.tsx';
import { postOnce } from '../../server/post-once.ts';
import { refresh, useMay, useNavigate, useRead } from '../../server/queries.ts';
import { RequestError, request } from '../../server/request.ts';
import type { Delivery, SystemInformation, WebhookEndpoint, WebhookList } from '../../server/types.ts';
import { DeliveryList } from './delivery-list.tsx';
import { EndpointForm, showSigningSecret } from './endpoint-form.tsx';
import { Recover } from './recover.tsx';
import { endpointState } from './webhooks.tsx';

const notices = {
  test: 'Test delivery sent.',
  enable: 'The endpoint is enabled. To send what it missed meanwhile, recover it.',
  disable: 'The endpoint is disabled.',
};

export default function EndpointPage() {
  const { id = '' } = useParams<{ id: string }>();
  const { data, error } = useRead<{ webhook_endpoint: WebhookEndpoint }>(`/api/webhook_endpoints/${encodeURIComponent(id)}`, {
    refetchInterval: 5_000,
  });
  if (error instanceof RequestError && error.status === 404)
    return <MissingPage title="Webhook endpoint" text="There is no endpoint with this id." to="/webhooks" all="All endpoints" />;
  if (data === undefined) return <UnreadPage title="Webhook endpoint" error={error} />;
  return <Endpoint endpoint={data.webhook_endpoint} />;
}

function Endpoint({ endpoint }: { endpoint: WebhookEndpoint }) {
  const navigate = useNavigate();
  const mayChange = useMay('webhooks:write');
  const [editing, setEditing] = useState(false);
  const [asking, setAsking] = useState<'disable' | 'rotate' | 'delete'>();
  const path = `/api/webhook_endpoints/${endpoint.id}`;
  const eventTypes = useRead<WebhookList>('/api/webhook_endpoints').data?.event_types ?? [];
  const act = useMutation({
    mutationFn: (action: 'test' | 'enable' | 'disable' | 'rotate_secret') => postOnce<{ secret?: string }>(`${path}/${action}`, {}),
    onSuccess: async (answer, action) => {
      setAsking(undefined);
      if (answer.secret !== undefined) showSigningSecret(endpoint.name, answer.secret);
      if (action !== 'rotate_secret') notify(notices[action]);
      await refresh('/api/webhook_endpoints');
    },
    onError: notifyError,
  });
  const remove = useMutation({
    mutationFn: () => request('DELETE', path),
    onSuccess: async () => {
      navigate('/webhooks');
      notify(`${endpoint.name} was deleted.`);
      await refresh('/api/webhook_endpoints');
    },
    onError: notifyError,
  });
  return (
    <Page
      title={endpoint.name}
      aside={<State name={endpointState(endpoint)} />}
      actions={
        mayChange && (
          <>
            <Button kind="primary" disabled={act.isPending} onClick={() => act.mutate('test')}>
              Send a test
            </Button>
            <Button disabled={act.isPending} onClick={() => (endpoint.enabled ? setAsking('disable') : act.mutate('enable'))}>
              {endpoint.enabled ? 'Disable' : 'Enable'}
            </Button>
            <Button onClick={() => setEditing(true)}>Change</Button>
            <Button onClick={() => setAsking('rotate')}>Rotate secret</Button>
            <Button kind="danger" onClick={() => setAsking('delete')}>
              Delete
            </Button>
          </>
        )
      }
    >
      <EndpointFacts endpoint={endpoint} />
      <Deliveries endpoint={endpoint} />
      {editing && <EndpointForm eventTypes={eventTypes} endpoint={endpoint} onClose={() => setEditing(false)} />}
      {asking === 'disable' && (
        <Confirm
          title={`Disable ${endpoint.name}?`}
          text="Pending deliveries wait until it is enabled again. What happens meanwhile is not sent to it unless you recover it afterwards."
          action="Disable endpoint"
          busy={act.isPending}
          onConfirm={() => act.mutate('disable')}
          onClose={() => setAsking(undefined)}
        />
      )}
      {asking === 'rotate' && (
        <Confirm
          title={`Rotate the signing secret of ${endpoint.name}?`}
          text="You get a new secret. For 24 hours deliveries are signed with both, so that you can update your backend."
          action="Rotate secret"
          kind="primary"
          busy={act.isPending}
          onConfirm={() => act.mutate('rotate_secret')}
          onClose={() => setAsking(undefined)}
        />
      )}
      {asking === 'delete' && (
        <Confirm
          title={`Delete ${endpoint.name}?`}
          text="No more events will be sent to it, and its deliveries will no longer be shown. This cannot be undone."
          action="Delete endpoint"
          busy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(undefined)}
        />
      )}
    </Page>
  );
}

function EndpointFacts({ endpoint }: { endpoint: WebhookEndpoint }) {
  const limit = useRead<SystemInformation>('/dashboard/api/system').data?.webhook_max_failures ?? 25;
  return (
    <dl className="mb-8 grid max-w-3xl grid-cols-[auto_1fr] gap-x-6 gap-y-1.5">
      <Fact label="Id">
        <CopyId value={String(endpoint.id)} />
      </Fact>
      <Fact label="URL">
        <CopyId value={endpoint.url} />
      </Fact>
      <Fact label="Events">{endpoint.event_types.length === 0 ? 'every event' : endpoint.event_types.join(', ')}</Fact>
      <Fact label="Consecutive failures">
        <span className={endpoint.consecutive_failures > 0 ? 'text-bad' : ''}>
          {endpoint.consecutive_failures} of {limit}
        </span>
        {endpoint.disabled_reason !== null && <span className="text-bad">. Disabled: {endpoint.disabled_reason}</span>}
      </Fact>
      {endpoint.previous_secret_expires_at !== null && (
        <Fact label="Old secret">
          also signs, expires <Time at={endpoint.previous_secret_expires_at} />
        </Fact>
      )}
    </dl>
  );
}

function Deliveries({ endpoint }: { endpoint: WebhookEndpoint }) {
  const query = useQueryState();
  const maySend = useMay('webhooks:write');
  const state = query.read('state');
  const [recovering, setRecovering] = useState(false);
  const deliveries = usePages<Delivery>(withQuery(`/api/webhook_endpoints/${endpoint.id}/deliveries`, { state, limit: 50 }), 3_000);
  // An open delivery stays, at the end, when newer ones push it off the page, or a link names one that is older than the listed ones.
  const opened = query.read('delivery');
  const isListed = deliveries.items.some(({ id }) => id === opened);
  const older = useRead<{ delivery: Delivery }>(`/api/webhook_deliveries/${encodeURIComponent(opened)}`, {
    enabled: opened !== '' && deliveries.isSuccess && !isListed,
    refetchInterval: 3_000,
  }).data?.delivery;
  const shown = isListed || older?.endpoint_id !== endpoint.id ? deliveries.items : [...deliveries.items, older];
  return (
    <Section
      title="Deliveries"
      actions={
        <>
          <Select
            label="State"
            value={state}
            onChange={(next) => query.write({ state: next, delivery: '' })}
            options={[{ value: '', label: 'Any state' }, ...['pending', 'delivered', 'failed'].map((value) => ({ value, label: value }))]}
          />
          {maySend && <Button onClick={() => setRecovering(true)}>Recover</Button>}
        </>
      }
    >
      {deliveries.error !== null && <Failure error={deliveries.error} />}
      {deliveries.isPending ? (
        <Waiting />
      ) : deliveries.isSuccess && shown.length === 0 ? (
        <Empty
          {...(state === ''
            ? {
                title: 'No deliveries yet.',
                text: 'Finish a turn in the playground, or send a test, here or from a terminal:',
                command: `npm exec parley -- webhooks test ${endpoint.id}`,
              }
            : { title: `No delivery is ${state}.` })}
        />
      ) : (
        <DeliveryList
          deliveries={shown}
          isHeld={!endpoint.enabled}
          mayResend={maySend}
          opened={opened}
          onOpen={(delivery) => query.write({ delivery })}
        />
      )}
      <More pages={deliveries} />
      {recovering && <Recover endpoint={endpoint} onClose={() => setRecovering(false)} />}
    </Section>
  );
}
