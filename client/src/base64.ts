/** In pieces, because engines limit the number of arguments of a call. */
export function bytesToBase64(bytes: Uint8Array): string {
  let text = '';
  for (let from = 0; from < bytes.length; from += 8_192) text += String.fromCharCode(...bytes.subarray(from, from + 8_192));
  return btoa(text);
}
