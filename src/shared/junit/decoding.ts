import { TextDecoder } from 'node:util';
import { UnreadableReportError } from './unreadable.ts';

/** Decodes a report by its declared encoding. Invalid bytes become U+FFFD. */
export interface ReportDecoder {
  write(bytes: Uint8Array): string;
  end(): string;
}

/** Enough bytes for every XML declaration. */
const headSize = 512;

export function createReportDecoder(): ReportDecoder {
  let head = Buffer.alloc(0);
  let decoder: TextDecoder | undefined;
  const begin = (): string => {
    decoder = decoderFor(head);
    const text = decoder.decode(head, { stream: true });
    head = Buffer.alloc(0);
    return text;
  };
  return {
    write(bytes) {
      if (decoder) return decoder.decode(bytes, { stream: true });
      head = Buffer.concat([head, bytes]);
      return head.length < headSize ? '' : begin();
    },
    end: () => (decoder ? '' : begin()) + (decoder?.decode() ?? ''),
  };
}

function decoderFor(head: Buffer): TextDecoder {
  const label = encodingOf(head);
  try {
    return new TextDecoder(label);
  } catch {
    throw new UnreadableReportError(`its encoding, ${label}, is not supported`);
  }
}

function encodingOf(head: Buffer): string {
  const beginning = head.subarray(0, 4).toString('hex');
  if (beginning.startsWith('fffe') || beginning === '3c003f00') return 'utf-16le';
  if (beginning.startsWith('feff') || beginning === '003c003f') return 'utf-16be';
  const declared = /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]{1,40})["']/.exec(head.toString('latin1'))?.[1];
  // A declaration that is readable byte by byte is not in UTF-16, even if it declares UTF-16.
  return declared === undefined || /^utf-?16/i.test(declared) ? 'utf-8' : declared;
}
