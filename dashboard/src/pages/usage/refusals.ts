const refusals: Record<string, string> = {
  credits_exhausted: 'The prepaid credits are used up.',
  total_tokens_cap_reached: 'The token cap is reached.',
  subscription_past_due: 'The subscription is past due.',
};

/** Why an organization's turns are refused, in words. */
export function refusalOf(reason: string): string {
  return refusals[reason] ?? reason;
}
