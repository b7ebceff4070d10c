import { postOnce } from '../../server/post-once.ts';

export const maxFileBytes = 10 * 1024 * 1024;

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
