// oxlint-disable-next-line no-control-regex -- logs have these sequences
const colours = /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]?/g;
/** Without a sign of their own, or with an effect on other text. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const isPlain = /^[\x20-\x7e]*$/;

/** On one line, without characters that control, reverse or hide text. */
export function plain(text: string): string {
  if (isPlain.test(text)) return text;
  return text
    .replaceAll(colours, '')
    .replaceAll(/[\t\n\u2028\u2029]+/g, ' ')
    .replaceAll(invisible, '');
}

/** The same, but its lines stay lines. */
export function plainLines(text: string): string[] {
  return text.split('\n').map(plain);
}
