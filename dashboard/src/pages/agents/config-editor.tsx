import { useMutation } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { useDraftKey } from '../../parts/drafts.ts';
import { Field, Toggle } from '../../parts/field.tsx';
import { notify } from '../../parts/notice.tsx';
import { Failure } from '../../parts/page.tsx';
import { postOnce } from '../../server/post-once.ts';
import { refresh } from '../../server/queries.ts';
import type { Agent, Release } from '../../server/types.ts';
import { DiffView } from './diff.tsx';
import { diffLines } from './diff-lines.ts';
import { comparedText, configText, instructionsOf } from './release-facts.ts';
import { PinnedTools } from './release-view.tsx';
import { useActivation } from './use-activation.ts';

/** What the editor shows for an agent without a release. */
const firstConfig = {
  instructions: 'You are the support desk of Example Ltd. Answer briefly.',
  model: { provider: 'offline', name: 'demo' },
  tools: ['files'],
  permissions: { mode: 'interactive', rules: [] },
};

interface ConfigEditorProps {
  agent: Agent;
  /** The release to start from; undefined if the agent has none. */
  source: Release | undefined;
  /** The version that the address names, or empty. Each has a draft of its own. */
  from: string;
  onCreated(): void;
}

/**
 * Creates a release by editing the JSON of an existing one. Says while typing what is not JSON; the server checks the rest.
 * The instructions have a field of their own besides: in JSON a text of several lines is one long line.
 */
export function ConfigEditor({ agent, source, from, onCreated }: ConfigEditorProps) {
  // `source` may change when somebody else creates or activates a release; what is being edited must not change with it.
  const [original] = useState(source);
  const originalText = useMemo(() => configText(original?.config ?? firstConfig), [original]);
  const draftKey = useDraftKey(`release ${agent.id} ${from}`);
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? originalText);
  const write = (next: string) => {
    setText(next);
    if (next === originalText) sessionStorage.removeItem(draftKey);
    else sessionStorage.setItem(draftKey, next);
  };
  const [activate, setActivate] = useState(original === undefined);
  const [isStartingOver, setStartingOver] = useState(false);
  const parsed = useMemo(() => parse(text), [text]);
  const path = `/api/agents/${agent.slug}/releases`;
  const activation = useActivation(path);
  const create = useMutation({
    mutationFn: (config: object) => postOnce<{ release: Release }>(path, config),
    onSuccess: async ({ release }) => {
      sessionStorage.removeItem(draftKey);
      if (activate) activation.mutate(release);
      else if (release.state === 'failed') notify(`Release ${release.version} failed: ${release.error}`, true);
      else notify(`Release ${release.version} was created.`);
      await refresh('/api/agents');
    },
  });
  const isChanged = text !== originalText;
  return (
    <div className="grid gap-6 lg:grid-cols-2">
      <div className="flex flex-col gap-4">
        <InstructionsField
          config={parsed.value}
          onChange={(instructions) => write(JSON.stringify({ ...parsed.value, instructions }, null, 2))}
        />
        <Field
          label={original === undefined ? 'Release' : `Release, from ${original.version}`}
          error={parsed.error}
          hint="Instructions, model, sub-agents, tools, MCP servers, permissions, instance and limits."
        >
          {(props) => (
            <textarea
              {...props}
              value={text}
              spellCheck={false}
              rows={20}
              className="input resize-y font-mono text-[0.92em] leading-relaxed"
              onChange={(event) => write(event.target.value)}
            />
          )}
        </Field>
        {create.error !== null && <Failure error={create.error} />}
        <div className="flex flex-wrap items-center gap-4">
          <Button
            kind="primary"
            disabled={create.isPending || parsed.value === undefined || (!isChanged && original !== undefined)}
            // A callback given to `mutate`, unlike those of `useMutation`, is not called once the editor has been left.
            onClick={() => parsed.value !== undefined && create.mutate(parsed.value, { onSuccess: onCreated })}
          >
            {create.isPending ? 'Creating…' : 'Create release'}
          </Button>
          <Toggle label="Activate it once it is ready" checked={activate} onChange={setActivate} />
          {isChanged && (
            <Button kind="quiet" onClick={() => setStartingOver(true)}>
              Start over
            </Button>
          )}
        </div>
        {isStartingOver && (
          <Confirm
            title="Start over?"
            text="What you have changed here is lost. This cannot be undone."
            action="Start over"
            onConfirm={() => {
              write(originalText);
              setStartingOver(false);
            }}
            onClose={() => setStartingOver(false)}
          />
        )}
      </div>
      <div>
        <p className="mb-1 font-medium">What changes</p>
        {isChanged ? (
          <DiffView lines={diffLines(comparedText(originalText), comparedText(text))} />
        ) : (
          <p className="text-dim">Nothing yet: edit the release on the left.</p>
        )}
        {original !== undefined && (
          <div className="mt-6">
            <PinnedTools release={original} />
          </div>
        )}
      </div>
    </div>
  );
}

/** Shows the instructions that the JSON has, and changes them there. While that is not JSON, they cannot be changed. */
function InstructionsField({ config, onChange }: { config: Record<string, unknown> | undefined; onChange(instructions: string): void }) {
  const instructions = config === undefined ? '' : instructionsOf(config);
  if (instructions === undefined) return null;
  return (
    <Field label="Instructions" {...(config === undefined ? { hint: 'They are shown here again once the release below is JSON.' } : {})}>
      {(props) => (
        <textarea
          {...props}
          dir="auto"
          value={instructions}
          disabled={config === undefined}
          rows={8}
          className="input resize-y"
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function parse(text: string): { value?: Record<string, unknown>; error?: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'A release is a JSON object.' };
    return { value: { ...value } };
  } catch (error) {
    return { error: error instanceof Error ? error.message : 'This is not JSON.' };
  }
}
