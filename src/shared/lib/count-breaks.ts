const lineBreak = 0x0a;

const nothing = new Int32Array(0);
const pattern = 0x0a0a0a0a;
const low = 0x7f7f7f7f;
/** Each byte of a sum counts to 255 at most. */
const mostWords = 255;

/** Reads four bytes at a time: each byte of a sum counts the line breaks at its position in the words. */
export function countBreaks(bytes: Buffer): number {
  const { buffer, byteOffset, length } = bytes;
  const head = length < 8 ? length : -byteOffset & 3;
  const words = length < 8 ? nothing : new Int32Array(buffer, byteOffset + head, (length - head) >> 2);
  const count = words.length;
  let breaks = 0;
  for (let at = 0; at < head; at += 1) if (bytes[at] === lineBreak) breaks += 1;
  for (let from = 0; from < count; from += mostWords) {
    const to = Math.min(count, from + mostWords);
    let sums = 0;
    for (let at = from; at < to; at += 1) {
      const word = (words[at] as number) ^ pattern; // line breaks become zero bytes
      sums = (sums + (~(((word & low) + low) | word | low) >>> 7)) | 0;
    }
    breaks += (sums & 0xff) + ((sums >>> 8) & 0xff) + ((sums >>> 16) & 0xff) + (sums >>> 24);
  }
  for (let at = head + count * 4; at < length; at += 1) if (bytes[at] === lineBreak) breaks += 1;
  return breaks;
}
