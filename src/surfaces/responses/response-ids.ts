/**
 * A response is a part of a turn: from its message, or from the answer to an approval, to the next approval request or the end.
 * Its id says which part, and the ids of its items contain it, so that the session of each is found without a table of responses.
 */
export interface ResponsePlace {
  responseId: string;
  turnId: string;
  /** The response begins after the event with this seq; 0 if it begins with the turn. */
  after: number;
}

export function responsePlace(turnId: string, after: number): ResponsePlace {
  const responseId = turnId.replace('turn_', 'resp_') + (after === 0 ? '' : `_${after}`);
  return { responseId, turnId, after };
}

/** Undefined if no response can have this id. */
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
