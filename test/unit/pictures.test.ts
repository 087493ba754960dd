import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { readPng, toPng } from '../system/page/pictures/png.ts';
import { fromCast, type Recording, toCast } from '../system/page/pictures/recording.ts';
import { lastScreen, play } from '../system/page/pictures/screen.ts';
import { toSvg } from '../system/page/pictures/svg.ts';

const FOLDER = join(import.meta.dirname, '../../.github/pictures');

function recording(...texts: string[]): Recording {
  const events = texts.map((text, index) => ({ atMs: index * 100, text }));
  return { columns: 10, rows: 5, command: 'tool', events };
}

const screenOf = (...texts: string[]): string[] => lastScreen(play(recording(...texts)));

describe('what a recording shows', () => {
  it.each([
    [['a\r\n\r\nb\r\n'], ['a', '', 'b']],
    [['one\r\u001b[Ktwo'], ['two']],
    [['longer\rx'], ['xonger']],
    [['\u001b[', 'K\u001b[1mbold\u001b', '[22m'], ['bold']],
    [['0123456789ab\r\n'], ['0123456789', 'ab']],
    [['0123456789\r\nab'], ['0123456789', 'ab']],
    [['ab\ncd'], ['ab', '  cd']],
  ])('of %j is %j', (texts, lines) => {
    expect(screenOf(...texts)).toEqual(lines);
  });

  it('says when it came and went', () => {
    const was = { row: 0, runs: [{ text: 'a', isBold: false }], fromMs: 0, untilMs: 100 };
    const is = { row: 0, runs: [{ text: 'b', isBold: true }], fromMs: 100, untilMs: null };
    expect(play(recording('a', '\r\u001b[K\u001b[1mb'))).toEqual([was, is]);
  });

  it.each(['\u001b[2J', '\u001b[31m', '\u0007', '\t'])('is refused where %j is in it', (text) => {
    expect(() => play(recording(`a${text}b`))).toThrow('is not known here');
  });
});

describe('a picture of a recording', () => {
  it('holds what is shown as text, with nothing from elsewhere', () => {
    const svg = toSvg(recording('$ a <b&c>\r\n', '\u001b[1mdone\u001b[22m  x'));
    expect(svg).toContain('$\u00a0a\u00a0&lt;b&amp;c&gt;');
    expect(svg).toContain('<tspan class="bold">done</tspan>\u00a0\u00a0x');
    expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(
      /https?:|href|<script|@import|url\(/,
    );
  });

  it('is the one that is stored beside it', async () => {
    const [cast, svg] = await Promise.all(
      ['demo.cast', 'demo.svg'].map((name) => readFile(join(FOLDER, name), 'utf8')),
    );
    expect(toSvg(fromCast(cast ?? ''))).toBe(svg);
    expect(toCast(fromCast(cast ?? ''))).toBe(cast);
  });
});

describe('a picture of a page', () => {
  it('says its size and its words', () => {
    const bytes = Uint8Array.from({ length: 3 * 2 * 4 }, (_, index) => index);
    const png = toPng({ width: 3, height: 2, bytes }, 'Übersicht\n≤ 4 min');
    expect(readPng(png)).toEqual({ width: 3, height: 2, words: 'Übersicht\n≤ 4 min' });
    png.writeUInt8(0xff, 20);
    expect(() => readPng(png)).toThrow('damaged');
    expect(() => readPng(Buffer.from('<html>'))).toThrow('no PNG');
  });
});
