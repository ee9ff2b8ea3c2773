/** The bytes are untrusted, so types that a browser would run, such as pages and scripts, become plain text. */
export function contentTypeOf(path: string): string {
  const [, ending = ''] = /\.([A-Za-z0-9]+)$/.exec(path) ?? [];
  return types[ending.toLowerCase()] ?? 'application/octet-stream';
}

const plainText = 'text/plain; charset=utf-8';
const textEndings =
  'txt log md csv tsv html htm xhtml svg xml js mjs cjs ts tsx jsx css map yml yaml toml ini conf diff patch sh py rb go rs c h cc cpp java kt php pl sql out err rst tap';

const types: Readonly<Record<string, string>> = {
  __proto__: null as never,
  ...Object.fromEntries(textEndings.split(' ').map((ending) => [ending, plainText])),
  json: 'application/json',
  pdf: 'application/pdf',
  zip: 'application/zip',
  gz: 'application/gzip',
  tgz: 'application/gzip',
  zst: 'application/zstd',
  tar: 'application/x-tar',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  mp4: 'video/mp4',
  webm: 'video/webm',
};

export const contentTypes: readonly string[] = [
  ...new Set([...Object.values(types), 'application/octet-stream'].map((type) => type.split(';', 1)[0] ?? '')),
];

/** For a host name where nothing else is, so that pages, styles and scripts may be what they are. */
export function siteTypeOf(path: string): string {
  const [, ending = ''] = /\.([A-Za-z0-9]+)$/.exec(path) ?? [];
  return siteTypes[ending.toLowerCase()] ?? contentTypeOf(path);
}

/** Without a character set, a page may declare its own. */
const siteTypes: Readonly<Record<string, string>> = {
  __proto__: null as never,
  html: 'text/html',
  htm: 'text/html',
  xhtml: 'application/xhtml+xml',
  xml: 'text/xml',
  svg: 'image/svg+xml',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  wasm: 'application/wasm',
  map: 'application/json',
  avif: 'image/avif',
  bmp: 'image/bmp',
  ico: 'image/x-icon',
  woff: 'font/woff',
  woff2: 'font/woff2',
  ttf: 'font/ttf',
  otf: 'font/otf',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
};

/** A path below a directory, without characters that could mislead a terminal or a reader. */
export function isPlainPath(path: string): boolean {
  if (Buffer.byteLength(path) > 1024 || !path.isWellFormed()) return false;
  if (/[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/u.test(path)) return false;
  return path.split('/').every((name) => name !== '' && name !== '.' && name !== '..');
}
