import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { EventStream, initialState, type StreamState } from './event-stream.ts';
import { type Conversation, foldConversation } from './fold.ts';

/** The live log of the session at the path `base`, and the conversation that it contains. `expected`: see `EventStream`. */
export function useConversation(base: string | undefined, expected = 0): StreamState & { conversation: Conversation } {
  const [opened, setOpened] = useState<{ base: string; stream: EventStream }>();
  // Never that of the session which was shown before.
  const stream = opened?.base === base ? opened?.stream : undefined;
  // Only the first value counts: a change of the length is no reason to open the stream again.
  const expectedAtFirst = useRef(expected);
  useEffect(() => {
    if (base === undefined) return;
    const next = new EventStream(`${base}/events/stream`, expectedAtFirst.current);
    setOpened({ base, stream: next });
    return () => {
      next.close();
      setOpened(undefined);
    };
  }, [base]);
  const state = useSyncExternalStore(stream?.subscribe ?? subscribeToNothing, () => stream?.state ?? initialState);
  const conversation = useMemo(() => foldConversation(state.events), [state.events]);
  return { ...state, conversation };
}

export function managedPath(org: string, agent: string, sessionId: string): string {
  return `/${org}/${agent}/v1/managed-agents/sessions/${encodeURIComponent(sessionId)}`;
}

function subscribeToNothing(): () => void {
  return () => {};
}
