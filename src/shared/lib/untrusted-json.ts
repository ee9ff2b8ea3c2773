/** A few bytes can cost a hundred as a value, a new name some microseconds, and a million levels a second. */
export interface JsonLimits {
  depth: number;
  /** Entries of lists and objects, and the lists and objects themselves. */
  values: number;
  names: number;
}

/** Readable within some milliseconds. Usual input of forges and runners has a tenth of that. */
export const modest: JsonLimits = { depth: 64, values: 100_000, names: 20_000 };

/** Invalid, or beyond the limits. */
export class UnreadableJsonError extends Error {
  override name = 'UnreadableJsonError';
}

/** A text beyond the limits is refused before it is parsed. */
export function readUntrustedJson(text: string, limits: JsonLimits = modest): unknown {
  if (measuredNames(text, limits) === undefined)
    throw new UnreadableJsonError('the JSON is nested too deeply, or has too many values');
  try {
    return JSON.parse(text);
  } catch {
    throw new UnreadableJsonError('it is no JSON');
  }
}

export function readUntrustedObject(text: string, limits?: JsonLimits): Record<string, unknown> {
  const value = readUntrustedJson(text, limits);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new UnreadableJsonError('the JSON is no object');
}

/** The number of names. Undefined if the text is beyond the limits. */
export function measuredNames(text: string, limits: JsonLimits): number | undefined {
  let [depth, values, names, inString] = [0, 0, 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at += 1;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) {
      depth += 1;
      values += 1;
    } else if (code === 0x7d || code === 0x5d) depth -= 1;
    else if (code === 0x2c) values += 1;
    else if (code === 0x3a) names += 1;
    else continue;
    if (depth > limits.depth || values > limits.values || names > limits.names) return undefined;
  }
  return names;
}
