import { Marked } from 'marked';
import sanitizeHtml, { type Attributes, type IOptions, type Tag } from 'sanitize-html';
import { bytes } from '../../shared/domain/bounds.ts';

export interface SummaryToShow {
  markdown: string;
  /** Addresses of the build's artifacts by their paths. */
  artifacts: ReadonlyMap<string, string>;
}

const marked = new Marked({
  gfm: true,
  renderer: { checkbox: ({ checked }) => (checked ? '\u2611 ' : '\u2610 ') }, // a form's control otherwise
});

/** No identifiers, names or classes, which could be mistaken for the page's own, and no styles. */
const cell = ['align', 'colspan', 'rowspan'];
const attributes: IOptions['allowedAttributes'] = {
  a: ['href', 'title', 'rel'],
  img: ['src', 'alt', 'title', 'width', 'height'],
  th: cell,
  td: cell,
  ol: ['start'],
  details: ['open'],
};
const tags =
  'h3 h4 h5 h6 p br hr ul ol li dl dt dd blockquote pre code kbd samp var em strong b i s del ins sub sup small span div ' +
  'table thead tbody tfoot tr th td caption a img details summary';

/** The page has headings of its own above these. */
const lower: Readonly<Record<string, string>> = { h1: 'h3', h2: 'h4', h3: 'h5', h4: 'h6', h5: 'h6' };

/** GitHub's Markdown as HTML that does nothing on a page. Throws an error if it would be too large. */
export function htmlOfSummary({ markdown, artifacts }: SummaryToShow): string {
  const addressOf = (written = ''): string | undefined => artifacts.get(pathOf(written));
  const image = (_: string, { src, alt = '', ...others }: Attributes): Tag => {
    const address = addressOf(src);
    return address === undefined
      ? { tagName: 'span', attribs: {}, text: alt }
      : { tagName: 'img', attribs: { ...others, src: address, alt } };
  };
  const link = (tagName: string, { href, ...others }: Attributes): Tag => {
    const address = addressOf(href) ?? href;
    const rel = 'nofollow noopener noreferrer';
    return { tagName, attribs: address === undefined ? others : { ...others, href: address, rel } };
  };
  const made = marked.parse(markdown, { async: false });
  if (made.length > 2 * bytes.summaryPage) throw new Error('the summary makes too large a page');
  const shown = sanitizeHtml(made, {
    allowedTags: tags.split(' '),
    allowedAttributes: attributes,
    allowedSchemes: ['http', 'https', 'mailto'],
    allowProtocolRelative: false,
    nestingLimit: 50,
    transformTags: {
      ...Object.fromEntries(
        Object.entries(lower).map(([from, tagName]) => [
          from,
          (_: string, attribs: Attributes) => ({ tagName, attribs }),
        ]),
      ),
      img: image,
      a: link,
    },
  });
  if (shown.length > bytes.summaryPage) throw new Error('the summary makes too large a page');
  return shown;
}

function pathOf(written: string): string {
  const path = written.replace(/^(\.\/)+/, '');
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // a percent sign of its own
  }
}
