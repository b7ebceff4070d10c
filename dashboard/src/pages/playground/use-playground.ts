import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { managedPath } from '../../conversation/use-conversation.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { postOnce } from '../../server/post-once.ts';
import { post } from '../../server/request.ts';
import { maxFileBytes, uploadFile } from './send.ts';

interface Place {
  org: string;
  agent: string;
  sessionId: string;
  /** A release to try that is not the active one; empty: the active one. */
  release: string;
  onSession(sessionId: string): void;
}

const draftKey = 'parley-playground-draft';

/** What is being written, and sending it: opens a session for the first message, stages files before theirs. */
export function usePlayground({ org, agent, sessionId, release, onSession }: Place) {
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? '');
  const [files, setFiles] = useState<readonly File[]>([]);
  const write = (next: string) => {
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
    onMutate: () => write(''),
    onSuccess: () => setFiles([]),
    onError: (error, message) => {
      // Before what was written since.
      const since = sessionStorage.getItem(draftKey) ?? '';
      write(since === '' ? message : `${message}\n${since}`);
      notifyError(error);
    },
  });
  const stop = useMutation({
    mutationFn: () => post(`${managedPath(org, agent, sessionId)}/events`, { type: 'user.interrupt' }),
    onError: notifyError,
  });

  const addFiles = (next: readonly File[]) => {
    const tooLarge = next.find((file) => file.size > maxFileBytes);
    if (tooLarge !== undefined) notify(`${tooLarge.name} is larger than 10 MiB.`, true);
    setFiles(next.filter((file) => file.size <= maxFileBytes));
  };
  return { text, write, files, addFiles, busy: send.isPending, send: () => send.mutate(text), stop: () => stop.mutate() };
}

async function openSession(org: string, agent: string, release: string): Promise<string> {
  const { id } =
    release === ''
      ? await postOnce<{ id: string }>(`/${org}/${agent}/v1/managed-agents/sessions`, { metadata: { source: 'playground' } })
      : await postOnce<{ id: string }>('/dashboard/api/playground/sessions', { agent, release: Number(release) });
  return id;
}
