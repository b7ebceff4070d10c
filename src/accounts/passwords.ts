/** scrypt, off this thread, in the format that the sign-in library verifies. Loaded when the first person joins. */
export async function hashPassword(password: string): Promise<string> {
  const crypto = await import('better-auth/crypto');
  return crypto.hashPassword(password);
}

export async function isPasswordOf(hash: string, password: string): Promise<boolean> {
  const crypto = await import('better-auth/crypto');
  return crypto.verifyPassword({ hash, password });
}
