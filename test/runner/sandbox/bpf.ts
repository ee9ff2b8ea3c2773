import { readFileSync } from 'node:fs';

/** What the kernel hands a seccomp filter: the call, the architecture it was made for, and its arguments. */
export interface Call {
  number: number;
  architecture: number;
  arguments?: readonly bigint[];
}

const errnoAnswer = 0x0005_0000;
export const allowed = 0x7fff_0000;
export const refusedWith = (errno: number): number => errnoAnswer | errno;

/** Runs a filter as the kernel would: the few instructions of classic BPF that libseccomp writes, and no others. */
export function filterIn(file: string): (call: Call) => number {
  const bytes = readFileSync(file);
  return (call) => {
    const data = new DataView(new ArrayBuffer(64));
    data.setUint32(0, call.number, true);
    data.setUint32(4, call.architecture, true);
    (call.arguments ?? []).forEach((value, index) => data.setBigUint64(16 + 8 * index, value, true));
    let accumulator = 0;
    for (let at = 0; ; at += 1) {
      const [code, onTrue, onFalse] = [
        bytes.readUInt16LE(8 * at),
        bytes.readUInt8(8 * at + 2),
        bytes.readUInt8(8 * at + 3),
      ];
      const constant = bytes.readUInt32LE(8 * at + 4);
      const jump = (holds: boolean): number => (at += holds ? onTrue : onFalse);
      if (code === 0x20) accumulator = data.getUint32(constant, true);
      else if (code === 0x54) accumulator = (accumulator & constant) >>> 0;
      else if (code === 0x05) at += constant;
      else if (code === 0x15) jump(accumulator === constant);
      else if (code === 0x25) jump(accumulator > constant);
      else if (code === 0x35) jump(accumulator >= constant);
      else if (code === 0x06) return constant;
      else throw new Error(`instruction ${at} of ${file} is not known here: 0x${code.toString(16)}`);
    }
  };
}
