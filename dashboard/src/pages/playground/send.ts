import { untilReachable } from '../../server/connection.ts';
import { post, RequestError } from '../../server/request.ts';

export const maxFileBytes = 10 * 1024 * 1024;

/** Sends what a person wrote, once, however often the connection breaks on the way: the key makes a repetition harmless. */
export async function postOnce<Answer>(path: string, body: unknown): Promise<Answer> {
  const idempotencyKey = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await post<Answer>(path, body, { idempotencyKey });
    } catch (error) {
      const passing = error instanceof RequestError && (error.status === 0 || error.status === 503);
      if (!passing || attempt === 20) throw error;
      await untilReachable();
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

export async function uploadFile(base: string, file: File): Promise<string> {
  const { path } = await postOnce<{ path: string }>(`${base}/files`, { name: file.name, content_base64: await base64(file) });
  return path;
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ''));
    reader.onerror = () => reject(reader.error ?? new Error('The file could not be read.'));
    reader.readAsDataURL(file);
  });
}
