/**
 * A response is a stretch of a turn: from its message, or from the answer to an approval, to its next rest. Its id says
 * which, and the ids of its items begin with it, so that the session of each is found without a table.
 */
export interface ResponsePlace {
  responseId: string;
  turnId: string;
  /** The stretch begins after this event of the log; 0: with the turn. */
  after: number;
}

export function responsePlace(turnId: string, after: number): ResponsePlace {
  const responseId = turnId.replace('turn_', 'resp_') + (after === 0 ? '' : `_${after}`);
  return { responseId, turnId, after };
}

/** Undefined for what cannot be an id of ours. */
export function placeOfResponse(responseId: string): ResponsePlace | undefined {
  const found = /^resp_([0-9A-Z]{26})(?:_([1-9]\d{0,8}))?$/.exec(responseId);
  return found === null ? undefined : responsePlace(`turn_${found[1]}`, Number(found[2] ?? 0));
}

export function itemId(responseId: string, index: number): string {
  return `${responseId.replace('resp_', 'msg_')}_${index}`;
}

export function placeOfItem(id: string): ResponsePlace | undefined {
  const found = /^msg_([0-9A-Z]{26}(?:_[1-9]\d{0,8})?)_\d{1,4}$/.exec(id);
  return found === null ? undefined : placeOfResponse(`resp_${found[1]}`);
}
