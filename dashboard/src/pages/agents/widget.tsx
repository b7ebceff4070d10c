import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { CodeBlock, CopyId } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { DialogForm } from '../../parts/dialog-form.tsx';
import { Field } from '../../parts/field.tsx';
import { textOf } from '../../parts/form-text.ts';
import { Time } from '../../parts/time.tsx';
import { useMay, useRead, useSignedIn } from '../../server/queries.ts';
import { post } from '../../server/request.ts';
import type { Agent, SessionToken, SystemInformation } from '../../server/types.ts';

export function WidgetButton({ agent }: { agent: Agent }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>Widget</Button>
      {isOpen && <WidgetDialog agent={agent} onClose={() => setOpen(false)} />}
    </>
  );
}

/** The HTML that embeds the agent in a page, and a form that puts a session token into it for a first try. */
function WidgetDialog({ agent, onClose }: { agent: Agent; onClose(): void }) {
  const { organization } = useSignedIn();
  const mayMint = useMay('session_tokens:mint');
  const origin = useRead<SystemInformation>('/dashboard/api/system').data?.public_url ?? window.location.origin;
  const mint = useMutation({
    mutationFn: (form: FormData) => {
      const endUser = textOf(form, 'end_user').trim();
      return post<SessionToken>(`/api/agents/${agent.slug}/session_tokens`, endUser === '' ? {} : { end_user_id: endUser });
    },
  });
  const tokenAttribute = mint.data === undefined ? 'token-url="/token"' : `token="${mint.data.token}"`;
  const code = `<script type="module" src="${origin}/widget/parley-chat.js"></script>
<parley-chat org="${organization.slug}" agent="${agent.slug}" ${tokenAttribute}></parley-chat>`;
  return (
    <Dialog title={`${agent.name} on your page`} onClose={onClose} wide>
      <CodeBlock text={code} label="Copy code" wrap />
      {mint.data === undefined ? (
        <p className="my-3 text-dim">
          <code>/token</code> is a route of your backend that mints a session token for whoever is signed in; see{' '}
          <a href="/docs/widget" className="text-accent underline underline-offset-2">
            Chat widget
          </a>
          .
        </p>
      ) : (
        <div role="status" className="my-3 text-dim">
          Its token is for a trial, and expires <Time at={mint.data.expires_at} />: <CopyId value={mint.data.token} />
        </div>
      )}
      {mayMint && (
        <DialogForm action="Create a token" leave="Close" work={mint} onSubmit={(form) => mint.mutate(form)} onClose={onClose}>
          <Field label="End user" hint="The id of who the token is for. Leave empty for an anonymous visitor.">
            {(props) => <input {...props} name="end_user" className="input" maxLength={256} autoComplete="off" placeholder="user_42" />}
          </Field>
        </DialogForm>
      )}
    </Dialog>
  );
}
