/**
 * Writes queries in PostgreSQL's protocol (version 3, the extended query messages). Several statements go into one
 * piece of memory, so that they are sent in one packet and answered in one.
 */
export class MessageWriter {
  #bytes = Buffer.allocUnsafe(4096);
  #length = 0;

  /** A named statement stays known to the connection; an unnamed one until the next unnamed one. */
  parse(name: string, text: string): void {
    const start = this.#begin('P');
    this.#cString(name);
    this.#cString(text);
    this.#int16(0); // PostgreSQL finds out the types of the parameters
    this.#end(start);
  }

  bind(name: string, values: readonly unknown[]): void {
    const start = this.#begin('B');
    this.#cString('');
    this.#cString(name);
    if (values.some(isBytes)) {
      this.#int16(values.length);
      for (const value of values) this.#int16(isBytes(value) ? 1 : 0);
    } else {
      this.#int16(0); // all parameters are text
    }
    this.#int16(values.length);
    for (const value of values) this.#value(value);
    this.#int16(0); // all results are text
    this.#end(start);
  }

  /** Asks for the columns of the result. */
  describe(): void {
    const start = this.#begin('D');
    this.#room(1);
    this.#bytes[this.#length++] = 'P'.charCodeAt(0);
    this.#cString('');
    this.#end(start);
  }

  execute(): void {
    const start = this.#begin('E');
    this.#cString('');
    this.#int32(0); // all rows
    this.#end(start);
  }

  /** Ends a batch. Outside a transaction it is committed here. */
  sync(): void {
    this.#end(this.#begin('S'));
  }

  /** Returns the written bytes for sending. The memory is used again for the next batch. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#length));
    this.forget();
    return taken;
  }

  forget(): void {
    this.#length = 0;
    if (this.#bytes.length > mostKept) this.#bytes = Buffer.allocUnsafe(4096);
  }

  #begin(type: string): number {
    this.#room(5);
    this.#bytes[this.#length] = type.charCodeAt(0);
    this.#length += 5;
    return this.#length - 4;
  }

  /** The length of a message includes itself, but not the type before it. */
  #end(start: number): void {
    this.#bytes.writeInt32BE(this.#length - start, start);
  }

  #value(value: unknown): void {
    if (value === null || value === undefined) return this.#int32(-1);
    if (isBytes(value)) {
      this.#int32(value.length);
      this.#room(value.length);
      this.#bytes.set(value, this.#length);
      this.#length += value.length;
      return;
    }
    const text = textOf(value);
    this.#room(4 + 3 * text.length);
    const written = this.#bytes.write(text, this.#length + 4);
    this.#bytes.writeInt32BE(written, this.#length);
    this.#length += 4 + written;
  }

  #cString(text: string): void {
    this.#room(3 * text.length + 1);
    this.#length += this.#bytes.write(text, this.#length);
    this.#bytes[this.#length++] = 0;
  }

  #int16(value: number): void {
    this.#room(2);
    this.#length = this.#bytes.writeInt16BE(value, this.#length);
  }

  #int32(value: number): void {
    this.#room(4);
    this.#length = this.#bytes.writeInt32BE(value, this.#length);
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

const mostKept = 64 * 1024;

function isBytes(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array;
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new TypeError(`no column holds a value of type ${typeof value}`);
}
