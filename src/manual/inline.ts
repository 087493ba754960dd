import { Lexer, type Token, type Tokens } from 'marked';

/** A run of text in one style. */
export interface Span {
  readonly text: string;
  readonly style: SpanStyle;
}

/** How a run of text is meant. */
export type SpanStyle = 'plain' | 'strong' | 'emphasis' | 'code';

/** Reads the marks within a text (GitHub Flavored Markdown, 6). */
export function parseInline(text: string): Span[] {
  return spansOf(Lexer.lexInline(text));
}

/** The runs of text that marks come to. What is no mark of a plain text, such as HTML, stands as it is. */
export function spansOf(tokens: readonly Token[], style: SpanStyle = 'plain'): Span[] {
  return merged(tokens.flatMap((token) => spansOfToken(token, style)));
}

function spansOfToken(token: Token, style: SpanStyle): Span[] {
  if (isOf<Tokens.Codespan>(token, 'codespan')) return [{ text: token.text, style: 'code' }];
  if (isOf<Tokens.Strong>(token, 'strong')) return spansOf(token.tokens, 'strong');
  if (isOf<Tokens.Em>(token, 'em')) return spansOf(token.tokens, 'emphasis');
  if (isOf<Tokens.Link>(token, 'link')) return linkSpans(token, style);
  if (isOf<Tokens.Escape>(token, 'escape')) return [{ text: token.text, style }];
  if (isOf<Tokens.Text>(token, 'text') && token.tokens !== undefined) return spansOf(token.tokens, style);
  return plain(token.raw, style);
}

/** Whether a token is of a type. */
export function isOf<T extends Token>(token: Token, type: T['type']): token is T {
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
