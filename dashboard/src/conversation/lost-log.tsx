import { Unreadable } from '../parts/page.tsx';
import type { StreamState } from './event-stream.ts';

/** Says that the log cannot be read at the moment, and why: what is shown of it may not be all there is. */
export function LostLog({ events, problem }: StreamState) {
  if (problem === undefined) return null;
  return (
    <div className="px-4 pt-4 sm:px-6">
      <Unreadable text={`The conversation could not be read${events.length === 0 ? '' : ' further'}. Trying again…`} reason={problem} />
    </div>
  );
}
