/** The text without the secret, in any encoding in which a server is likely to repeat it. */
export function hideSecret(text: string, secret: string | undefined): string {
  // A shorter secret would also hide parts of ordinary words.
  if (secret === undefined || secret.length < 4) return text;
  const spellings = new Set([
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    Buffer.from(secret).toString('base64'),
    Buffer.from(secret).toString('base64url'),
  ]);
  let hidden = text;
  for (const spelling of spellings) hidden = hidden.replaceAll(spelling, '[hidden]');
  return hidden;
}
