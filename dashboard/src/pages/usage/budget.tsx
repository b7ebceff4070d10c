import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { Figure } from '../../parts/figure.tsx';
import { textOf } from '../../parts/form-text.ts';
import { count, money } from '../../parts/format.ts';
import { notify } from '../../parts/notice.tsx';
import { Failure, Section, Unread, Waiting } from '../../parts/page.tsx';
import { refresh, useMay, useRead } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Budget } from '../../server/types.ts';
import { refusalOf } from './refusals.ts';

export function BudgetSection() {
  const query = useRead<{ budget: Budget }>('/api/budget', { refetchInterval: 30_000 });
  const mayChange = useMay('budgets:write');
  const [editing, setEditing] = useState(false);
  if (query.data === undefined)
    return <Section title="Caps">{query.error === null ? <Waiting /> : <Failure error={query.error} />}</Section>;
  const { budget } = query.data;
  const percentOf = (used: number, cap: number | null) => (cap === null ? undefined : cap === 0 ? 100 : (used / cap) * 100);
  const spent = budget.credits_micros === null ? 0 : budget.credits_micros - (budget.credits_remaining_micros ?? 0);
  return (
    <Section
      title="Caps"
      hint={budget.reason !== null ? <Badge tone="bad">{refusalOf(budget.reason)}</Badge> : 'Turns over a cap are refused with 402.'}
      actions={mayChange && <Button onClick={() => setEditing(true)}>Change caps</Button>}
    >
      <Unread what="The caps" query={query} />
      <div className="grid gap-px overflow-hidden rounded-lg border border-line bg-line sm:grid-cols-3">
        <Figure
          label="Tokens"
          value={count(budget.tokens_used)}
          note={budget.total_tokens_cap === null ? 'no cap' : `of ${count(budget.total_tokens_cap)}`}
          percent={percentOf(budget.tokens_used, budget.total_tokens_cap)}
        />
        <Figure
          label="Prepaid credits"
          value={budget.credits_micros === null ? money(budget.spent_micros) : money(budget.credits_remaining_micros ?? 0)}
          note={budget.credits_micros === null ? 'spent, without a limit' : `left of ${money(budget.credits_micros)}, set by the operator`}
          percent={percentOf(spent, budget.credits_micros)}
        />
        <Figure
          label="Per instance"
          value={budget.instance_spend_cap_micros === null ? 'no cap' : money(budget.instance_spend_cap_micros)}
          note="an end user, or what the release says"
        />
      </div>
      {editing && <EditBudget budget={budget} onClose={() => setEditing(false)} />}
    </Section>
  );
}

function EditBudget({ budget, onClose }: { budget: Budget; onClose(): void }) {
  const save = useMutation({
    mutationFn: (form: FormData) => {
      const tokens = textOf(form, 'tokens').trim();
      const dollars = textOf(form, 'dollars').trim();
      return request('PUT', '/api/budget', {
        body: {
          total_tokens_cap: tokens === '' ? null : Number(tokens),
          instance_spend_cap_micros: dollars === '' ? null : Math.round(Number(dollars) * 1_000_000),
        },
      });
    },
    onSuccess: async () => {
      notify('The caps were changed.');
      await refresh('/api/budget', '/dashboard/api/overview');
      onClose();
    },
  });
  const dollars = budget.instance_spend_cap_micros === null ? '' : String(budget.instance_spend_cap_micros / 1_000_000);
  return (
    <Dialog title="Caps" onClose={onClose}>
      <DialogForm action="Save caps" work={save} onSubmit={(form) => save.mutate(form)} onClose={onClose}>
        <Field label="Total tokens" hint="Leave empty for no cap.">
          {(props) => (
            <input {...props} name="tokens" type="number" min={0} step={1} className="input" defaultValue={budget.total_tokens_cap ?? ''} />
          )}
        </Field>
        <Field label="Dollars per instance" hint="Leave empty for no cap.">
          {(props) => <input {...props} name="dollars" type="number" min={0} step="any" className="input" defaultValue={dollars} />}
        </Field>
      </DialogForm>
    </Dialog>
  );
}
