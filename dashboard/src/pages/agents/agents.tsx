import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Link } from 'wouter';
import { Badge, State } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyId } from '../../parts/copy.tsx';
import { curlCommand } from '../../parts/curl-command.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { More, usePages } from '../../parts/more.tsx';
import { Empty, Failure, Page, Waiting } from '../../parts/page.tsx';
import { useQueryState } from '../../parts/query-state.ts';
import { Time } from '../../parts/time.tsx';
import { postOnce } from '../../server/post-once.ts';
import { refresh, useMay, useNavigate } from '../../server/queries.ts';
import type { Agent } from '../../server/types.ts';

export default function AgentsPage() {
  const pages = usePages<Agent>('/api/agents?limit=100', 15_000);
  const { items: agents, error } = pages;
  const mayCreate = useMay('agents:write');
  const query = useQueryState();
  return (
    <Page
      title="Agents"
      actions={
        mayCreate && (
          <Button kind="primary" onClick={() => query.write({ new: '1' })}>
            <Plus size={15} /> New agent
          </Button>
        )
      }
    >
      {error !== null && <Failure error={error} />}
      {pages.isPending && <Waiting />}
      {pages.isSuccess && agents.length === 0 && !mayCreate && <Empty title="No agents yet." text="An owner or admin can create one." />}
      {pages.isSuccess && agents.length === 0 && mayCreate && (
        <Empty
          title="No agents yet."
          text="Create one here, or from a terminal:"
          command={curlCommand('POST', '/api/agents', { slug: 'support', name: 'Support' })}
        />
      )}
      {agents.length > 0 && (
        <div className="panel overflow-hidden">
          <table className="grid-table table-fixed">
            <thead>
              <tr>
                <th>Agent</th>
                <th className="max-md:hidden">Description</th>
                <th className="w-32 sm:w-44">Active release</th>
                <th className="number w-28 max-sm:hidden">Changed</th>
              </tr>
            </thead>
            <tbody>
              {agents.map((agent) => (
                <tr key={agent.id}>
                  <td>
                    <span className="flex flex-wrap items-center gap-x-2">
                      <Link to={`/agents/${agent.slug}`} title={agent.name} className="max-w-full truncate font-medium hover:text-accent">
                        {agent.name}
                      </Link>
                      <CopyId value={agent.slug} className="text-dim" />
                      {agent.default && <Badge>default</Badge>}
                    </span>
                  </td>
                  <td className="text-dim max-md:hidden">
                    <p className="line-clamp-2 break-words" title={agent.description}>
                      {agent.description}
                    </p>
                  </td>
                  <td>
                    {agent.active_version === null ? <span className="text-warn">none</span> : `Release ${agent.active_version} `}
                    {agent.active_state !== null && agent.active_state !== 'materialized' && <State name={agent.active_state} />}
                  </td>
                  <td className="number text-dim max-sm:hidden">
                    <Time at={agent.updated_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More pages={pages} />
      {query.read('new') !== '' && <NewAgent onClose={() => query.write({ new: '' })} />}
    </Page>
  );
}

function NewAgent({ onClose }: { onClose(): void }) {
  const navigate = useNavigate();
  const [slug, setSlug] = useState('');
  const create = useMutation({
    mutationFn: (form: FormData) => {
      const name = textOf(form, 'name').trim();
      const description = textOf(form, 'description');
      return postOnce<{ agent: Agent }>('/api/agents', { slug, description, ...(name === '' ? {} : { name }) });
    },
    onSuccess: async ({ agent }) => {
      await refresh('/api/agents');
      // Takes the dialog out of the address, so that Back leads to the list.
      onClose();
      navigate(`/agents/${agent.slug}?tab=edit`);
    },
  });
  return (
    <Dialog title="New agent" onClose={onClose}>
      <DialogForm action="Create agent" work={create} onSubmit={(form) => create.mutate(form)} onClose={onClose}>
        <Field label="Slug" hint="Part of its URL: a-z, 0-9, _ and -. It cannot be changed later.">
          {(props) => (
            <input
              {...props}
              className="input font-mono"
              required
              maxLength={63}
              pattern="[a-z0-9][a-z0-9_\-]*"
              // The browser adds this to its own message, which names no format and covers the hint.
              title="Only a-z, 0-9, _ and -; a letter or digit first."
              value={slug}
              onChange={(event) => setSlug(event.target.value)}
            />
          )}
        </Field>
        <Field label="Name">{(props) => <input {...props} name="name" className="input" maxLength={200} placeholder={slug} />}</Field>
        <Field label="Description">{(props) => <input {...props} name="description" className="input" maxLength={2000} />}</Field>
      </DialogForm>
    </Dialog>
  );
}
