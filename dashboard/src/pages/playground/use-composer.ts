import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { managedPath } from '../../conversation/use-conversation.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { postOnce } from '../../server/post-once.ts';
import { post } from '../../server/request.ts';
import { maxFileBytes, uploadFile } from './upload-file.ts';

interface Recipient {
  org: string;
  agent: string;
  /** Empty before the first message, which opens a session. */
  sessionId: string;
  /** The release of a new session; empty for the active one. */
  release: string;
  onSession(sessionId: string): void;
}

const draftKey = 'parley-playground-draft';

/** The message that is being written, which survives a reload, and its files, which are uploaded before it is sent. */
export function useComposer({ org, agent, sessionId, release, onSession }: Recipient) {
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? '');
  const [files, setFiles] = useState<readonly File[]>([]);
  const writeText = (next: string) => {
    setText(next);
    sessionStorage.setItem(draftKey, next);
  };

  const send = useMutation({
    mutationFn: async (message: string) => {
      const id = sessionId === '' ? await openSession(org, agent, release) : sessionId;
      const base = managedPath(org, agent, id);
      if (sessionId === '') onSession(id);
      for (const file of files) await uploadFile(base, file);
      await postOnce(`${base}/events`, { type: 'user.message', text: message });
    },
    onMutate: () => writeText(''),
    onSuccess: () => setFiles([]),
    onError: (error, message) => {
      // Puts the message back, before what was written meanwhile.
      const meanwhile = sessionStorage.getItem(draftKey) ?? '';
      writeText(meanwhile === '' ? message : `${message}\n${meanwhile}`);
      notifyError(error);
    },
  });
  const stop = useMutation({
    mutationFn: () => post(`${managedPath(org, agent, sessionId)}/events`, { type: 'user.interrupt' }),
    onError: notifyError,
  });

  const chooseFiles = (next: readonly File[]) => {
    const tooLarge = next.find((file) => file.size > maxFileBytes);
    if (tooLarge !== undefined) notify(`${tooLarge.name} is larger than 10 MiB.`, true);
    setFiles(next.filter((file) => file.size <= maxFileBytes));
  };
  return { text, writeText, files, chooseFiles, isSending: send.isPending, send: () => send.mutate(text), stop: () => stop.mutate() };
}

async function openSession(org: string, agent: string, release: string): Promise<string> {
  const { id } =
    release === ''
      ? await postOnce<{ id: string }>(`/${org}/${agent}/v1/managed-agents/sessions`, { metadata: { source: 'playground' } })
      : await postOnce<{ id: string }>('/dashboard/api/playground/sessions', { agent, release: Number(release) });
  return id;
}
