import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { jsonText, table } from '../../../../src/cli/frame/output.ts';
import { inlineYaml } from '../../../../src/config/render.ts';
import { printable } from '../../../../src/lib/text/humanize.ts';
import {
  emphasised,
  escaped,
  escapedLines,
  joined,
  joinLines,
  say,
  TerminalText,
  written,
} from '../../../../src/lib/text/terminal-text.ts';
import { hostileText, UNFIT } from '../../../support/hostile-text.ts';

describe('foreign text', () => {
  it.each([
    ['\u0000\t\n\r\u001b', String.raw`\u0000\u0009\u000a\u000d\u001b`],
    ['\u007f\u0080\u009b31m\u009f', String.raw`\u007f\u0080\u009b31m\u009f`],
    ['\u2028\u2029', String.raw`\u2028\u2029`],
    ['\u202egpj.exe', String.raw`\u202egpj.exe`],
    ['\u061c\u200e\u200f\u2066\u2069', String.raw`\u061c\u200e\u200f\u2066\u2069`],
    ['a\u200bb\u00adc\u2060d\ufeffe\u3164f\ufff9', String.raw`a\u200bb\u00adc\u2060d\ufeffe\u3164f\ufff9`],
    ['\u{e0041}', String.raw`\u{e0041}`],
    ['a\ud800b\udc00', String.raw`a\ud800b\udc00`],
  ])('that is invisible or misleading becomes visible: %j', (text, shown) => {
    expect(String(escaped(text))).toBe(shown);
  });

  it.each([
    'plain text, ÄÖÜ 表 😀',
    'کتاب\u200cخانه',
    'क्\u200dष',
    '👩\u200d💻',
    '❤\ufe0f',
    '葛\u{e0100}',
    'עברית',
    String.raw`C:\u\n`,
  ])('that has this form already stays as it is: %j', (text) => {
    expect(String(escaped(text))).toBe(text);
  });

  it('is escaped only once, however often it is passed on', () => {
    fc.assert(
      fc.property(hostileText, (text) => {
        const once = String(escaped(text));
        expect(once).not.toMatch(UNFIT);
        expect(String(escaped(once))).toBe(once);
        expect(String(say`${say`${text}`}`)).toBe(once);
        expect(String(joinLines([joined([escaped(text)], '')]))).toBe(once);
      }),
    );
  });

  it('is escaped anywhere in a text, unlike the program’s own line feeds', () => {
    fc.assert(
      fc.property(fc.array(hostileText), hostileText, (texts, separator) => {
        for (const text of [
          joinLines(texts),
          joined(texts, separator),
          joinLines(texts).prefixed(separator),
          table(texts, [texts, [...texts, separator]]),
          escapedLines(texts.join('\n')),
          say`${joined(texts, '')}${separator}`.cut(7),
        ])
          expect(String(text).replaceAll('\n', '')).not.toMatch(UNFIT);
        expect(String(joinLines(texts)).split('\n')).toHaveLength(Math.max(1, texts.length));
      }),
    );
  });

  it('is recognised at run time, whatever its declared type', () => {
    const said = '\u001b[2J' as unknown as TerminalText;
    expect(() => written(said)).toThrow(TypeError);
    expect(() => written(Object.create(TerminalText.prototype) as TerminalText)).toThrow(TypeError);
    expect(String(say`${said}`)).toBe(String.raw`\u001b[2J`);
    expect(String(say`${String(emphasised('x', 'bold'))}`)).toBe(String.raw`\u001b[1mx\u001b[22m`);
  });
});

describe('composed text', () => {
  it('keeps the text of the source', () => {
    const text = say`\r\u001b[K${'a\n'}\n${3}${emphasised('b\u001b', 'bold')}`;
    expect(String(text)).toBe('\r\u001b[Ka\\u000a\n3\u001b[1mb\\u001b\u001b[22m');
    expect(String(say``)).toBe('');
  });

  it('counts only visible columns', () => {
    const text = emphasised('äb', 'bold');
    expect(String(text.cut(1))).toBe('ä');
    expect(String(escaped('a😀').cut(2))).toBe('a');
    expect(String(text.cut(Number.NaN))).toBe('');
  });

  it('is aligned in columns by its displayed form', () => {
    expect(String(table(['A', 'B'], [['\u001b', 'x'], ['y']]))).toBe('A       B\n\\u001b  x\ny');
  });
});

describe('data for programs', () => {
  it('is the same value in JSON, without characters that a terminal would hide', () => {
    fc.assert(
      fc.property(fc.dictionary(hostileText, fc.array(hostileText)), (value) => {
        const text = String(jsonText(value));
        expect(text.replaceAll('\n', '')).not.toMatch(UNFIT);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('is the same value in YAML, too, and one line', () => {
    fc.assert(
      fc.property(fc.oneof(hostileText, fc.array(hostileText)), (value) => {
        const text = inlineYaml(value);
        expect(text).not.toMatch(UNFIT);
        expect(parse(text)).toEqual(value);
      }),
    );
  });

  it('that is harmless stays as it was', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(printable(text) === text);
        expect(String(jsonText({ text }))).toBe(JSON.stringify({ text }, null, 2));
      }),
    );
  });
});
