import { Lexer, type Token, type Tokens } from 'marked';

import { isOf, type Span, spansOf } from './inline.ts';

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

/** Null for what is between blocks. */
function blockOf(token: Token): Block | null {
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
