import { timestamp } from '../clock.ts';

export interface WebhookEvent {
  type: string;
  createdAt: Date;
  data: unknown;
}

/** The body of a webhook (spec 2.8). It is made once and stored as text: every attempt sends the same bytes. */
export function webhookBody(id: string, organization: { id: number; slug: string }, endpointId: number, event: WebhookEvent): string {
  return JSON.stringify({
    id,
    type: event.type,
    created_at: timestamp(event.createdAt),
    organization: { id: organization.id, slug: organization.slug },
    endpoint_id: endpointId,
    data: event.data,
  });
}

export function laneOfEndpoint(endpointId: number): string {
  return `endpoint ${endpointId}`;
}
