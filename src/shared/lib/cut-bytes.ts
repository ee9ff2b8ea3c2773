/** At most this many bytes, without half characters. */
export function cutBytes(bytes: Uint8Array, most: number): string {
  let end = Math.min(bytes.length, most);
  // A byte of the form 10xxxxxx continues a character.
  if (end < bytes.length) while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end -= 1;
  return Buffer.from(bytes.buffer, bytes.byteOffset, end).toString();
}
