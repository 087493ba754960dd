import { Lexer, type Token, type Tokens } from 'marked';

/** A run of text in one style. */
export interface Span {
  readonly text: string;
  readonly style: SpanStyle;
}

/** How a run of text is meant. */
export type SpanStyle = 'plain' | 'strong' | 'emphasis' | 'code';

/** A part of a text: what GitHub Flavored Markdown knows, as far as a manual of plain sentences takes it. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly spans: readonly Span[] }
  | { readonly kind: 'paragraph'; readonly spans: readonly Span[] }
  | { readonly kind: 'code'; readonly lines: readonly string[] }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'list'; readonly items: readonly ListItem[] }
  | {
      readonly kind: 'table';
      readonly headings: readonly (readonly Span[])[];
      readonly rows: readonly (readonly (readonly Span[])[])[];
    };

/** An item of a list with the mark before it: `•` or its number. */
export interface ListItem {
  readonly mark: string;
  readonly blocks: readonly Block[];
}

/** Reads the blocks of a text. Comments in it are left out. */
export function parseMarkdown(text: string): Block[] {
  return blocksOf(new Lexer().lex(text.replaceAll(/<!--.*?-->\n?/gs, '')));
}

function blocksOf(tokens: readonly Token[]): Block[] {
  return tokens.flatMap((token) => blockOf(token) ?? []);
}

/** Null for what is between blocks, and for pictures: the text around them has to say it all. */
function blockOf(token: Token): Block | null {
  if (isOf<Tokens.HTML>(token, 'html') && token.text.startsWith('<picture>')) return null;
  if (isOf<Tokens.Heading>(token, 'heading'))
    return { kind: 'heading', level: token.depth, spans: spansOf(token.tokens) };
  if (isOf<Tokens.Code>(token, 'code')) return { kind: 'code', lines: token.text.split('\n') };
  if (isOf<Tokens.Blockquote>(token, 'blockquote')) return { kind: 'quote', blocks: blocksOf(token.tokens) };
  if (isOf<Tokens.List>(token, 'list')) return { kind: 'list', items: itemsOf(token) };
  if (isOf<Tokens.Table>(token, 'table')) {
    return {
      kind: 'table',
      headings: token.header.map(({ tokens }) => spansOf(tokens)),
      rows: token.rows.map((row) => row.map(({ tokens }) => spansOf(tokens))),
    };
  }
  const spans = token.type === 'space' ? [] : spansOf('tokens' in token ? (token.tokens ?? []) : [token]);
  return spans.length === 0 ? null : { kind: 'paragraph', spans };
}

function itemsOf({ items, ordered, start }: Tokens.List): ListItem[] {
  return items.map(({ tokens }, index) => ({
    mark: ordered ? `${Number(start) + index}.` : '•',
    blocks: blocksOf(tokens),
  }));
}

/** Reads the marks within a text (GitHub Flavored Markdown, 6). */
export function parseInline(text: string): Span[] {
  return spansOf(Lexer.lexInline(text));
}

/** The runs of text that marks come to. What is no mark of a plain text, such as HTML, stands as it is. */
function spansOf(tokens: readonly Token[], style: SpanStyle = 'plain'): Span[] {
  return merged(tokens.flatMap((token) => spansOfToken(token, style)));
}

function spansOfToken(token: Token, style: SpanStyle): Span[] {
  if (isOf<Tokens.Codespan>(token, 'codespan')) return [{ text: token.text, style: 'code' }];
  if (isOf<Tokens.Strong>(token, 'strong')) return spansOf(token.tokens, 'strong');
  if (isOf<Tokens.Em>(token, 'em')) return spansOf(token.tokens, 'emphasis');
  if (isOf<Tokens.Link>(token, 'link')) return linkSpans(token, style);
  if (isOf<Tokens.Image>(token, 'image')) return [];
  if (isOf<Tokens.Escape>(token, 'escape')) return [{ text: token.text, style }];
  if (isOf<Tokens.Text>(token, 'text') && token.tokens !== undefined) return spansOf(token.tokens, style);
  return plain(token.raw, style);
}

/** Whether a token is of a type. */
function isOf<T extends Token>(token: Token, type: T['type']): token is T {
  return token.type === type;
}

function plain(text: string, style: SpanStyle): Span[] {
  return [{ text: text.replaceAll(/\s*\n\s*/g, ' '), style }];
}

/** A link within the same text says nothing where it cannot be followed. */
function linkSpans({ tokens, href, text }: Tokens.Link, style: SpanStyle): Span[] {
  const isElsewhere = /^[a-z]+:/i.test(href) && href !== text;
  return [...spansOf(tokens, style), ...(isElsewhere ? [{ text: ` (${href})`, style }] : [])];
}

function merged(spans: readonly Span[]): Span[] {
  const result: Span[] = [];
  for (const span of spans) {
    const last = result.at(-1);
    if (last !== undefined && last.style === span.style && span.style !== 'code') {
      result[result.length - 1] = { ...last, text: last.text + span.text };
    } else if (span.text !== '') result.push(span);
  }
  return result;
}

/** A text without its marks. */
export function plainText(spans: readonly Span[]): string {
  return spans.map(({ text }) => text).join('');
}
