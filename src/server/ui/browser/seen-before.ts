/** Parts that differ from build to build: numbers, and long ones in hexadecimal digits. */
const varying = /\b(?=[\da-f]*\d)(?=[\da-f]*[a-f])[\da-f]{7,}\b|\d+/g;
/** The viewer's signs for characters that cannot be seen. */
const signs = /[\u2400-\u2421\ufffd]/u;
const longestExpression = 1000;
const leastPlain = 3;

/** An expression that matches the line and others like it. Blank if the line says too little. */
export function expressionOf(shown: string): string {
  const [longest = ''] = shown.split(signs).toSorted((a, b) => b.length - a.length);
  for (let length = 200; ; length -= 20) {
    const text = Array.from(longest.trim()).slice(0, length).join('').trimEnd();
    if (text.replaceAll(varying, '').replaceAll(/\s/g, '').length < leastPlain) return '';
    const expression = generalised(text);
    if (expression.length <= longestExpression) return expression;
  }
}

function generalised(text: string): string {
  let [expression, at] = ['', 0];
  for (const { 0: found, index } of text.matchAll(varying)) {
    expression += escaped(text.slice(at, index)) + (/^\d+$/.test(found) ? String.raw`\d+` : '[0-9a-f]+');
    at = index + found.length;
  }
  return expression + escaped(text.slice(at));
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`).replaceAll('\t', String.raw`\t`);
}
