/** Two claims of a JWT, without verifying it, which is the server's task. Undefined for what is no JWT. */
export function claimsOf(token: string): { exp?: unknown; sub?: unknown } | undefined {
  try {
    const payload = token.split('.')[1] ?? '';
    return JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))) ?? undefined;
  } catch {
    return undefined;
  }
}
