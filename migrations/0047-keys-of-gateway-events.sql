-- The key under which a submitted event's turn was admitted contains a line break now, which no header can: a customer's own key could
-- equal it. Only events whose process has not got to say that the turn was admitted are still looked for by their key.
update idempotency_keys k set key = E'gateway\n' || g.event_id, fingerprint = E'gateway\n' || g.event_id
from gateway_events g
where g.state = 'received' and g.target = 'submit' and k.org_id = g.org_id and k.key = 'gateway ' || g.event_id
  -- A customer's has a hash here.
  and k.fingerprint = k.key;
