export interface Verdict {
  valid: boolean;
  message: string;
}

/** A delivery is signed with the HMAC-SHA256 of `<timestamp>.<raw body>` in hex, keyed with the endpoint's secret. */
export async function checkSignature(secret: string, header: string, body: string): Promise<Verdict> {
  const entries = header.split(',').map((entry) => entry.trim().split('='));
  const timestamp = entries.find(([name]) => name === 't')?.[1];
  const signatures = entries.filter(([name]) => name === 'v1').map(([, value]) => value);
  if (timestamp === undefined || !/^\d+$/.test(timestamp))
    return { valid: false, message: 'The header has no timestamp: it must hold t=<seconds>.' };
  if (signatures.length === 0) return { valid: false, message: 'The header has no signature: it must hold v1=<hex>.' };
  if (crypto.subtle === undefined)
    return { valid: false, message: 'This browser signs only on pages opened over HTTPS or on this machine.' };
  const encoder = new TextEncoder();
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const digest = await crypto.subtle.sign('HMAC', key, encoder.encode(`${timestamp}.${body}`));
  const expected = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
  if (!signatures.includes(expected))
    return { valid: false, message: 'It does not match: another secret, or the body is not byte for byte what arrived.' };
  const minutes = Math.round((Date.now() / 1000 - Number(timestamp)) / 60);
  return {
    valid: true,
    message: minutes > 5 ? `It matches. It is ${minutes} minutes old: a receiver may refuse it for that.` : 'It matches.',
  };
}
