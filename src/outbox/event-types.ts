/** Every event type a webhook can carry, with an example of its `data`: what a test delivery sends. */
const examples = {
  'session.started': { session_id: 'ses_test', agent: 'assistant', end_user_id: null },
  'turn.completed': {
    session_id: 'ses_test',
    turn_id: 'turn_test',
    agent: 'assistant',
    usage: { input_tokens: 12, output_tokens: 34, total_tokens: 46 },
    stop_reason: 'end_turn',
  },
  'turn.failed': {
    session_id: 'ses_test',
    turn_id: 'turn_test',
    agent: 'assistant',
    error: { code: 'overloaded', message: 'The provider is overloaded.' },
  },
  'turn.requires_action': {
    session_id: 'ses_test',
    turn_id: 'turn_test',
    request_id: 'req_test',
    tool: 'bash',
    message: 'Allow bash to run a command?',
  },
  'subscription.created': { plan: 'team', status: 'active' },
  'subscription.updated': { plan: 'team', status: 'past_due' },
  'subscription.canceled': { plan: 'team', status: 'canceled' },
  'invoice.paid': { invoice_id: 1, amount_cents: 4_900 },
  'invoice.payment_failed': { invoice_id: 1, amount_cents: 4_900 },
  'usage.budget_threshold_reached': { threshold: 80, percent_used: 81 },
  'usage.budget_exhausted': { threshold: 100, percent_used: 100 },
  'organization.suspended': { status: 'suspended' },
  'organization.resumed': { status: 'active' },
  'api_key.created': { id: 1, prefix: 'svc_live_abcdef', name: 'Backend' },
  'api_key.revoked': { id: 1, prefix: 'svc_live_abcdef', name: 'Backend' },
} as const satisfies Record<string, Record<string, unknown>>;

export type EventType = keyof typeof examples;

export const eventTypes: readonly string[] = Object.keys(examples);

const exampleOf: ReadonlyMap<string, Record<string, unknown>> = new Map(Object.entries(examples));

export function isEventType(type: string): boolean {
  return exampleOf.has(type);
}

/** The data of a test delivery: an example, marked so that nobody takes it for the real thing. */
export function testData(type: string): Record<string, unknown> {
  return { ...exampleOf.get(type), test: true };
}
