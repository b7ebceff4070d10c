import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { EventStream, type StreamState } from './event-stream.ts';
import { type Conversation, foldConversation } from './fold.ts';

const nothing: StreamState = { events: [], preview: '', phase: 'reading', refusal: undefined };

/** A session's log, live, and what it amounts to. */
export function useConversation(base: string | undefined, expected = 0): StreamState & { conversation: Conversation } {
  const [stream, setStream] = useState<EventStream>();
  // Of the moment it is opened; what comes later is no reason to open it again.
  const known = useRef(expected);
  useEffect(() => {
    if (base === undefined) return;
    const opened = new EventStream(`${base}/events/stream`, known.current);
    setStream(opened);
    return () => {
      opened.close();
      setStream(undefined);
    };
  }, [base]);
  const state = useSyncExternalStore(stream?.subscribe ?? never, () => stream?.state ?? nothing);
  const conversation = useMemo(() => foldConversation(state.events), [state.events]);
  return { ...state, conversation };
}

export function managedPath(org: string, agent: string, sessionId: string): string {
  return `/${org}/${agent}/v1/managed-agents/sessions/${encodeURIComponent(sessionId)}`;
}

function never(): () => void {
  return () => {};
}
