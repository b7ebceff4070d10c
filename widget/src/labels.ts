/** Every word that the widget itself says; set `labels` on the element to say it in another language. */
export const labels = {
  heading: 'Chat',
  placeholder: 'Write a message',
  send: 'Send',
  stop: 'Stop',
  attach: 'Attach a file',
  remove: 'Remove',
  startOver: 'New conversation',
  open: 'Open the chat',
  close: 'Close the chat',
  you: 'You',
  agent: 'Assistant',
  writing: 'Writing…',
  loading: 'Loading the conversation…',
  lost: 'The connection was lost. Trying again…',
  retry: 'Try again',
  approval: 'Approval needed',
  details: 'Details',
  approve_once: 'Approve once',
  approve_session: 'Approve for this conversation',
  deny: 'Deny',
  approved: 'Approved',
  denied: 'Denied',
  tooLarge: 'is larger than 10 MiB',
  tokenMissing: 'This chat has no session token: set token, token-url or tokenProvider.',
};

export type Labels = typeof labels;
