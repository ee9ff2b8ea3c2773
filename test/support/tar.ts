/** Tar archives that no tool would make: written header by header, so that they can contain anything. */
export interface TarEntry {
  name: string;
  type?: 'file' | 'hard link' | 'symbolic link' | 'character device' | 'block device' | 'directory' | 'pipe';
  target?: string;
  content?: string | Buffer;
  /** Its permissions; 0755 if it is missing. */
  mode?: number;
  /** Its user and its group; root if they are missing. */
  owner?: [number, number];
  /** The size in the header, where it differs from the length of the content. */
  size?: number;
}

const flags = {
  file: '0',
  'hard link': '1',
  'symbolic link': '2',
  'character device': '3',
  'block device': '4',
  directory: '5',
  pipe: '6',
};

export function tarOf(entries: TarEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = Buffer.from(entry.content ?? '');
    const padding = Buffer.alloc((512 - (content.length % 512)) % 512);
    return [header(entry, entry.size ?? content.length), content, padding];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function header({ name, type = 'file', target = '', mode = 0o755, owner = [0, 0] }: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0, 100);
  block.write(`${mode.toString(8).padStart(7, '0')}\0`, 100);
  owner.forEach((id, at) => block.write(`${id.toString(8).padStart(7, '0')}\0`, 108 + 8 * at));
  if (size < 8 ** 11) block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  else {
    block[124] = 0x80; // larger numbers are binary
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write('00000000000\0', 136);
  block.write(' '.repeat(8), 148);
  block.write(flags[type], 156);
  block.write(target, 157, 100);
  block.write('ustar\x0000', 257);
  block.write('0000001\0', 329);
  block.write('0000003\0', 337);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
