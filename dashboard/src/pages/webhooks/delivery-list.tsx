import { useMutation } from '@tanstack/react-query';
import { ChevronRight } from 'lucide-react';
import { Badge, State } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { duration, plural } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { notify, notifyError } from '../../parts/notice.tsx';
import { DueTime, Time } from '../../parts/time.tsx';
import { refresh } from '../../server/queries.ts';
import { post } from '../../server/request.ts';
import type { Delivery } from '../../server/types.ts';

/** The names under which `State` knows the colours for a delivery. */
const badgeStates: Record<Delivery['state'], string> = { pending: 'pending', delivered: 'succeeded', failed: 'failed' };

interface DeliveryListProps {
  deliveries: readonly Delivery[];
  /** The endpoint is disabled: pending deliveries wait until it is enabled. */
  isHeld: boolean;
  mayResend: boolean;
  /** The id of the delivery whose details are shown, or empty. */
  opened: string;
  onOpen(id: string): void;
}

/** The deliveries of an endpoint. Each unfolds to its attempts and its payload. */
export function DeliveryList({ deliveries, isHeld, mayResend, opened, onOpen }: DeliveryListProps) {
  const resend = useMutation({
    mutationFn: (id: string) => post(`/api/webhook_deliveries/${id}/resend`),
    onSuccess: async () => {
      notify('Sent again.');
      await refresh('/api/webhook_endpoints', '/api/webhook_deliveries');
    },
    onError: notifyError,
  });
  return (
    <div className="panel divide-y divide-line">
      {deliveries.map((delivery) => (
        <details
          key={delivery.id}
          className="group"
          open={delivery.id === opened}
          onToggle={({ currentTarget }) => {
            if (currentTarget.open) onOpen(delivery.id);
            else if (delivery.id === opened) onOpen('');
          }}
        >
          <summary className="flex list-none flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 hover:bg-hover">
            <ChevronRight size={13} className="shrink-0 transition-transform group-open:rotate-90" aria-hidden />
            <code className="font-medium">{delivery.event_type}</code>
            <State name={isHeld && delivery.state === 'pending' ? 'held' : badgeStates[delivery.state]} label={delivery.state} />
            {delivery.test && <Badge>test</Badge>}
            <span className="text-dim">{plural(delivery.attempts.length, 'attempt')}</span>
            {delivery.next_attempt_at !== null &&
              (isHeld ? (
                <span className="text-dim">waits until it is enabled</span>
              ) : (
                <DueTime at={delivery.next_attempt_at} className="text-dim" />
              ))}
            <Time at={delivery.created_at} className="ml-auto text-dim" />
          </summary>
          <div className="border-t border-line bg-sunken px-3 py-3">
            <div className="mb-3 flex flex-wrap items-center gap-3">
              <CopyId value={delivery.id} />
              {mayResend && (
                <Button className="ml-auto" disabled={resend.isPending} onClick={() => resend.mutate(delivery.id)}>
                  Resend
                </Button>
              )}
            </div>
            <ol className="mb-3 flex flex-col gap-1">
              {delivery.attempts.map((attempt) => (
                <li key={`${attempt.number} ${attempt.started_at}`} className="flex flex-wrap gap-x-3">
                  <span className="text-dim">{attempt.manual ? 'by hand' : `attempt ${attempt.number}`}</span>
                  <span className={attempt.status !== null && attempt.status < 300 ? 'text-accent' : 'text-bad'}>
                    {attempt.status ?? attempt.error}
                  </span>
                  <span className="text-dim">{duration(attempt.duration_ms)}</span>
                  <Time at={attempt.started_at} className="text-dim" />
                  {attempt.response_excerpt !== '' && (
                    <code className="max-h-40 w-full overflow-auto [overflow-wrap:anywhere] whitespace-pre-wrap text-dim">
                      {attempt.response_excerpt}
                    </code>
                  )}
                </li>
              ))}
            </ol>
            <Json value={delivery.payload} />
          </div>
        </details>
      ))}
    </div>
  );
}
