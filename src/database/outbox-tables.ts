import type { Generated } from 'kysely';
import type { CreatedAt, JsonWithDefault, Nullable } from './columns.ts';

export interface WebhookEndpointsTable {
  id: Generated<number>;
  org_id: number;
  name: string;
  url: string;
  event_types: JsonWithDefault<string[]>;
  secret_ciphertext: string;
  previous_secret_ciphertext: Nullable<string>;
  previous_secret_until: Nullable<Date>;
  enabled: Generated<boolean>;
  disabled_reason: Nullable<string>;
  consecutive_failures: Generated<number>;
  created_at: CreatedAt;
  updated_at: CreatedAt;
}

export type DeliveryState = 'pending' | 'delivered' | 'failed';

export interface DeliveriesTable {
  id: string;
  position: Generated<number>;
  org_id: number;
  lane: string;
  endpoint_id: Nullable<number>;
  event_id: Nullable<string>;
  gateway_url: Nullable<string>;
  type: string;
  body: string;
  is_test: Generated<boolean>;
  state: Generated<DeliveryState>;
  attempt_count: Generated<number>;
  next_attempt_at: Nullable<Date>;
  resend_requested: Generated<boolean>;
  due_at: Nullable<Date>;
  claimed_by: Nullable<string>;
  claimed_manually: Generated<boolean>;
  created_at: CreatedAt;
  delivered_at: Nullable<Date>;
}

export interface DeliveryAttemptsTable {
  delivery_id: string;
  number: number;
  manual: boolean;
  started_at: Date;
  duration_ms: number;
  status: Nullable<number>;
  error: Nullable<string>;
  response_excerpt: Generated<string>;
}
