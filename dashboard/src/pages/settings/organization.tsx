import { useMutation } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { Button } from '../../parts/button.tsx';
import { Field, Select, Toggle } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { Failure, Section, Waiting } from '../../parts/page.tsx';
import { refresh, useAgents, useMay, useRead } from '../../server/queries.ts';
import { request } from '../../server/request.ts';
import type { Organization } from '../../server/types.ts';

export function OrganizationSettings() {
  const mayChange = useMay('organization:write');
  const agents = useAgents().data ?? [];
  const { data, error } = useRead<{ organization: Organization }>('/api/organization');
  const save = useMutation({
    // Mutations of one scope run one after the other, so that the last choice wins.
    scope: { id: 'organization' },
    mutationFn: (body: Partial<Organization>) => request('PATCH', '/api/organization', { body }),
    onSuccess: async () => {
      notify('Saved.');
      await refresh('/api/organization', '/dashboard/session', '/api/agents');
    },
    onError: notifyError,
  });
  // Once it was read the form stays, with what was typed, when reading it again fails.
  if (data === undefined) return error === null ? <Waiting /> : <Failure error={error} />;
  const { organization } = data;
  // While a change is being saved the controls already show it.
  const shown = save.isPending ? { ...organization, ...save.variables } : organization;
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const thresholds = textOf(form, 'thresholds')
      .split(/[\s,]+/)
      .filter((part) => part !== '')
      .map(Number);
    save.mutate({ name: textOf(form, 'name'), alert_thresholds: thresholds });
  };
  return (
    <div className="max-w-2xl">
      <Section title="Support access" hint="Whether anyone other than the end user can read conversations, with an API key or here.">
        <Toggle
          label="Transcripts may be read"
          disabled={!mayChange}
          checked={shown.support_access.transcripts}
          onChange={(transcripts) => save.mutate({ support_access: { transcripts } })}
        />
      </Section>
      <Section title="Default agent" hint="The agent that the flat /v1 routes use.">
        <Select
          label="Default agent"
          value={shown.default_agent ?? ''}
          disabled={!mayChange}
          onChange={(slug) => save.mutate({ default_agent: slug === '' ? null : slug })}
          options={[{ value: '', label: 'none' }, ...agents.map(({ slug, name }) => ({ value: slug, label: name }))]}
        />
      </Section>
      <Section title="Name and alerts">
        <form onSubmit={submit} className="flex flex-col gap-4">
          <Field label="Name">
            {(props) => (
              <input
                {...props}
                name="name"
                className="input"
                required
                maxLength={200}
                defaultValue={organization.name}
                disabled={!mayChange}
              />
            )}
          </Field>
          <Field label="Alert thresholds" hint="Percentages of a budget at which a webhook event is sent.">
            {(props) => (
              <input
                {...props}
                name="thresholds"
                className="input"
                defaultValue={organization.alert_thresholds.join(', ')}
                disabled={!mayChange}
              />
            )}
          </Field>
          {mayChange && (
            <div>
              <Button type="submit" kind="primary" disabled={save.isPending}>
                Save
              </Button>
            </div>
          )}
        </form>
      </Section>
      {organization.subscription !== null && (
        <p className="text-dim">
          Plan {organization.subscription.plan}, {organization.subscription.status}
        </p>
      )}
    </div>
  );
}
