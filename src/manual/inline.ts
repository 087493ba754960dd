/** A run of text in one style. */
export interface Span {
  readonly text: string;
  readonly style: SpanStyle;
}

/** How a run of text is meant. */
export type SpanStyle = 'plain' | 'strong' | 'emphasis' | 'code';

/**
 * One piece of marked text: code in back quotes, strong or emphasised text, a link, an escaped sign (GitHub Flavored Markdown,
 * 2.4 and 6). Underscores inside a word are part of it.
 */
const MARK =
  /(?<ticks>`+)(?<code>.+?)\k<ticks>(?!`)|\*\*(?<strong>.+?)\*\*|\*(?<emphasis>[^*\s](?:[^*]*[^*\s])?)\*|(?<!\w)_(?<underlined>[^_]+)_(?!\w)|\[(?<link>[^\]]+)\]\((?<address>[^)\s]+)\)|<(?<bare>https?:[^>\s]+)>|\\(?<escaped>[!-/:-@[-`{-~])/;

/** Reads the marks within a text. */
export function parseInline(text: string, style: SpanStyle = 'plain'): Span[] {
  const match = MARK.exec(text);
  if (match === null) return text === '' ? [] : [{ text, style }];
  const before = text.slice(0, match.index);
  const after = text.slice(match.index + match[0].length);
  return merged([
    ...(before === '' ? [] : [{ text: before, style }]),
    ...spansOf(match.groups ?? {}, style),
    ...parseInline(after, style),
  ]);
}

function spansOf(groups: Readonly<Record<string, string | undefined>>, style: SpanStyle): Span[] {
  const { code, strong, emphasis, underlined, link, address = '', bare, escaped } = groups;
  if (code !== undefined) return [{ text: code, style: 'code' }];
  if (strong !== undefined) return parseInline(strong, 'strong');
  const emphasised = emphasis ?? underlined;
  if (emphasised !== undefined) return parseInline(emphasised, 'emphasis');
  if (link !== undefined) {
    // A link within the same text says nothing where it cannot be followed.
    const isElsewhere = /^[a-z]+:/i.test(address) && address !== link;
    return [...parseInline(link, style), ...(isElsewhere ? [{ text: ` (${address})`, style }] : [])];
  }
  return [{ text: bare ?? escaped ?? '', style }];
}

function merged(spans: readonly Span[]): Span[] {
  const result: Span[] = [];
  for (const span of spans) {
    const last = result.at(-1);
    if (last !== undefined && last.style === span.style && span.style !== 'code') {
      result[result.length - 1] = { ...last, text: last.text + span.text };
    } else result.push(span);
  }
  return result;
}

/** A text without its marks. */
export function plainText(spans: readonly Span[]): string {
  return spans.map(({ text }) => text).join('');
}
