/** Markup in which all text is escaped. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Piece = Html | string | number | bigint | false | undefined | readonly Piece[];

/** Values are escaped unless they are `Html`. Missing and false values insert nothing. */
export function html(strings: TemplateStringsArray, ...values: Piece[]): Html {
  let text = strings[0] ?? '';
  for (const [at, value] of values.entries()) text += render(value) + (strings[at + 1] ?? '');
  return new Html(text);
}

function render(piece: Piece): string {
  if (piece === undefined || piece === false) return '';
  if (typeof piece === 'string') return escaped(piece);
  if (piece instanceof Html) return piece.text;
  return typeof piece === 'object' ? piece.map((one) => render(one)).join('') : String(piece);
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Enough for text and quoted attributes, the only uses of values. Invisible control characters become signs. */
function escaped(text: string): string {
  return text
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)
    .replaceAll(/[^\P{Cc}\t\n\r]|[\u202A-\u202E\u2066-\u2069]/gu, pictureOf);
}

function pictureOf(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\uFFFD';
}
