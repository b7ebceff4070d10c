import { useIsMutating, useMutation } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { withDistinctNames } from '../../../../widget/src/distinct-names.ts';
import type { Conversation } from '../../conversation/fold.ts';
import { managedPath } from '../../conversation/use-conversation.ts';
import { useDraftKey } from '../../parts/drafts.ts';
import { notify, notifyError } from '../../parts/notice.tsx';
import { sharedValue } from '../../parts/shared-value.ts';
import { postOnce } from '../../server/post-once.ts';
import { post } from '../../server/request.ts';
import { notLogged, type Outgoing } from './outgoing.ts';
import { maxFileBytes, uploadFile } from './upload-file.ts';

interface Recipient {
  org: string;
  agent: string;
  /** Empty before the first message, which opens a session. */
  sessionId: string;
  /** The release of a new session; empty for the active one. */
  release: string;
  conversation: Conversation;
  lastSeq: number;
  onSession(sessionId: string): void;
}

/** Counts the changes of what is stored: not only the composer on the page makes them, but also one that was left before its message failed. */
const draftChanges = sharedValue(0);
/** Ends the key of a message that is on its way. The rest is the key of its draft. */
const sending = ' sending';

// A message that was still on its way when the page was reloaded goes back into the field.
for (const key of Object.keys(sessionStorage).filter((each) => each.endsWith(`playground${sending}`))) {
  putBack(key.slice(0, -sending.length), sessionStorage.getItem(key) ?? '');
  sessionStorage.removeItem(key);
}

/** The message that is being written and its files, which are uploaded before it is sent; and those that are on their way. */
export function useComposer({ org, agent, sessionId, release, conversation, lastSeq, onSession }: Recipient) {
  const draftKey = useDraftKey('playground');
  draftChanges.useValue();
  const text = readDraft(draftKey);
  const [files, setFiles] = useState<readonly File[]>([]);
  const [outgoing, setOutgoing] = useState<readonly Outgoing[]>([]);
  const change = (id: number, changes: Partial<Outgoing>) =>
    setOutgoing((before) => before.map((each) => (each.id === id ? { ...each, ...changes } : each)));

  // What the log has had is forgotten: when the person comes back to its session, the log is empty until it has been read again.
  useEffect(() => {
    setOutgoing((before) => {
      const others = before.filter((message) => message.sessionId !== sessionId);
      const rest = notLogged(before, sessionId, conversation);
      return others.length + rest.length === before.length ? before : [...others, ...rest];
    });
  }, [sessionId, conversation]);

  const send = useMutation({
    mutationFn: async (message: Outgoing) => {
      const open = message.sessionId === '' ? await openSession(org, agent, release) : message.sessionId;
      const base = managedPath(org, agent, open);
      if (message.sessionId === '') {
        change(message.id, { sessionId: open });
        onSession(open);
      }
      for (const file of message.files) await uploadFile(base, file);
      await postOnce(`${base}/events`, { type: 'user.message', text: message.text });
    },
    onMutate: (message) => {
      setOutgoing((before) => [...before, message]);
      writeDraft(draftKey, '');
      setFiles([]);
      sessionStorage.setItem(draftKey + sending, message.text);
    },
    onSuccess: (_, { id }) => change(id, { isAccepted: true }),
    onError: (error, message) => {
      setOutgoing((before) => before.filter(({ id }) => id !== message.id));
      putBack(draftKey, message.text);
      setFiles((chosen) => withDistinctNames([...message.files, ...chosen]));
      notifyError(error);
    },
    onSettled: () => sessionStorage.removeItem(draftKey + sending),
  });
  const stopKey = ['stop', sessionId];
  const stop = useMutation({
    mutationKey: stopKey,
    mutationFn: () => post(`${managedPath(org, agent, sessionId)}/events`, { type: 'user.interrupt' }),
    onError: notifyError,
  });

  const chooseFiles = (next: readonly File[]) => {
    const tooLarge = next.find((file) => file.size > maxFileBytes);
    if (tooLarge !== undefined) notify(`${tooLarge.name} is larger than 10 MiB.`, true);
    setFiles(withDistinctNames(next.filter((file) => file.size <= maxFileBytes)));
  };
  return {
    text,
    writeText: (next: string) => writeDraft(draftKey, next),
    files,
    chooseFiles,
    outgoing: notLogged(outgoing, sessionId, conversation),
    isSending: send.isPending,
    send: () => send.mutate({ id: performance.now(), sessionId, text, files, isAccepted: false, after: lastSeq }),
    // Of this session: it may have been asked for before the person looked at another one.
    isStopping: useIsMutating({ mutationKey: stopKey }) > 0,
    stop: () => stop.mutate(),
  };
}

function readDraft(key: string): string {
  return sessionStorage.getItem(key) ?? '';
}

function writeDraft(key: string, text: string): void {
  sessionStorage.setItem(key, text);
  draftChanges.write(draftChanges.read() + 1);
}

/** Puts a message that was not sent back into the field, before what was written meanwhile. */
function putBack(key: string, message: string): void {
  writeDraft(key, [message, readDraft(key)].filter((each) => each !== '').join('\n'));
}

async function openSession(org: string, agent: string, release: string): Promise<string> {
  const { id } =
    release === ''
      ? await postOnce<{ id: string }>(`/${org}/${agent}/v1/managed-agents/sessions`, { metadata: { source: 'playground' } })
      : await postOnce<{ id: string }>('/dashboard/api/playground/sessions', { agent, release: Number(release) });
  return id;
}
