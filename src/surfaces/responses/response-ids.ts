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

/** The id of a turn's message as an input item, or of a message that came along as its context. */
export function messageItemId(turnId: string, contextIndex?: number): string {
  return turnId.replace('turn_', 'msg_') + (contextIndex === undefined ? '' : `_c${contextIndex}`);
}

/** The id of the answer to an approval request as an input item. */
export function approvalItemId(requestId: string): string {
  return `${requestId}_response`;
}

/** The approval request of this id, or of the id of its answer. */
export function requestOfItem(id: string): string | undefined {
  return id.startsWith('req_') ? id.replace(/_response$/, '') : undefined;
}

/** The response that has this item, or that begins with this message. */
export function placeOfItem(id: string): ResponsePlace | undefined {
  const found = /^msg_([0-9A-Z]{26}(?:_[1-9]\d{0,8})?)_\d{1,4}$/.exec(id) ?? /^msg_([0-9A-Z]{26})(?:_c\d{1,8})?$/.exec(id);
  return found === null ? undefined : placeOfResponse(`resp_${found[1]}`);
}
