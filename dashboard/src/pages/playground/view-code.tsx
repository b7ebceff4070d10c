import { useState } from 'react';
import { Link } from 'wouter';
import { CodeBlock } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { codeSamples, type SampleInput } from './code-samples.ts';

export function ViewCode({ input, onClose }: { input: SampleInput; onClose(): void }) {
  const samples = codeSamples(input);
  const [name, setName] = useState('curl');
  const sample = samples.find((candidate) => candidate.name === name) ?? samples[0];
  return (
    <Dialog title="The same in code" onClose={onClose} wide>
      <Tabs label="Client" value={name} onChange={setName} tabs={samples.map((each) => ({ value: each.name, label: each.name }))} />
      <div className="mt-3">{sample !== undefined && <CodeBlock text={sample.code} label="Copy code" />}</div>
      <p className="mt-3 text-dim">
        <code>PARLEY_API_KEY</code> is a key of this organization: make one under{' '}
        <Link to="/keys" className="text-accent underline underline-offset-2">
          API keys
        </Link>
        .
      </p>
    </Dialog>
  );
}
