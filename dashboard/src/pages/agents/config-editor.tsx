import { useMutation } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Field, Toggle } from '../../parts/field.tsx';
import { notify } from '../../parts/notice.tsx';
import { Failure } from '../../parts/page.tsx';
import { postOnce } from '../../server/post-once.ts';
import { forget } from '../../server/queries.ts';
import type { Agent, Release } from '../../server/types.ts';
import { DiffView } from './diff.tsx';
import { diffLines } from './diff-lines.ts';
import { withoutRepetition } from './release-facts.ts';
import { useActivation } from './use-activation.ts';

const starter = {
  instructions: 'You are the support desk of Example Ltd. Answer briefly.',
  model: { provider: 'offline', name: 'demo' },
  tools: ['files'],
  permissions: { mode: 'interactive', rules: [] },
};

interface ConfigEditorProps {
  agent: Agent;
  source: Release | undefined;
  /** The version that was asked for as its source; empty: the active one. */
  from: string;
  onMade(): void;
}

/** A new release, from an existing one. Said to be wrong while typing where it is not JSON; the server checks the rest. */
export function ConfigEditor({ agent, source, from, onMade }: ConfigEditorProps) {
  // Of the moment it was opened: a release that somebody else makes meanwhile takes nothing away from what is being written.
  const [origin] = useState(source);
  const before = useMemo(() => JSON.stringify(origin === undefined ? starter : withoutRepetition(origin.config), null, 2), [origin]);
  const draftKey = `parley-release-draft ${agent.id} ${from}`;
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? before);
  const write = (next: string) => {
    setText(next);
    if (next === before) sessionStorage.removeItem(draftKey);
    else sessionStorage.setItem(draftKey, next);
  };
  const [activate, setActivate] = useState(origin === undefined);
  const parsed = useMemo(() => parse(text), [text]);
  const path = `/api/agents/${agent.slug}/releases`;
  const activation = useActivation(path);
  const make = useMutation({
    mutationFn: (config: object) => postOnce<{ release: Release }>(path, config),
    onSuccess: async ({ release }) => {
      sessionStorage.removeItem(draftKey);
      if (activate) activation.mutate(release);
      else if (release.state === 'failed') notify(`Release ${release.version} failed: ${release.error}`, true);
      else notify(`Release ${release.version} was created.`);
      await forget('/api/agents');
    },
  });
  const changed = text !== before;
  return (
    <div className="grid gap-6 lg:grid-cols-2">
      <div>
        <Field
          label={origin === undefined ? 'Release' : `Release, from ${origin.version}`}
          error={parsed.error}
          hint="Instructions, model, sub-agents, tools, MCP servers, permissions, instance and limits."
        >
          {(props) => (
            <textarea
              {...props}
              value={text}
              spellCheck={false}
              rows={26}
              className="input resize-y font-mono text-[0.92em] leading-relaxed"
              onChange={(event) => write(event.target.value)}
            />
          )}
        </Field>
        {make.error !== null && (
          <div className="mt-3">
            <Failure error={make.error} />
          </div>
        )}
        <div className="mt-3 flex flex-wrap items-center gap-4">
          <Button
            kind="primary"
            disabled={make.isPending || parsed.value === undefined || (!changed && origin !== undefined)}
            // Not where the editor was left meanwhile.
            onClick={() => parsed.value !== undefined && make.mutate(parsed.value, { onSuccess: onMade })}
          >
            {make.isPending ? 'Creating…' : 'Create release'}
          </Button>
          <Toggle label="Activate it once it is ready" checked={activate} onChange={setActivate} />
          {changed && (
            <Button kind="quiet" onClick={() => write(before)}>
              Start over
            </Button>
          )}
        </div>
      </div>
      <div>
        <p className="mb-1 font-medium">What changes</p>
        {changed ? <DiffView lines={diffLines(before, text)} /> : <p className="text-dim">Nothing yet: edit the release on the left.</p>}
      </div>
    </div>
  );
}

function parse(text: string): { value?: object; error?: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'A release is a JSON object.' };
    return { value };
  } catch (error) {
    return { error: error instanceof Error ? error.message : 'This is not JSON.' };
  }
}
