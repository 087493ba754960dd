import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { encodeSegment, foldName, repositoryPath } from '../../../../src/lib/paths/safe-path.ts';

const NASTY = [
  ...Array.from('./\\:*?"<>|% ~u\u0000\u001f\u007f\u0085'),
  'con',
  'nul',
  'com1',
  'é',
  'e\u0301',
  'ß',
  '\ud800',
  '\udc00',
  '😀',
  '%2F',
  '%empty',
  '.json',
  'x'.repeat(120),
  '文'.repeat(60),
];
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.array(fc.constantFrom(...NASTY), { maxLength: 12 }).map((pieces) => pieces.join('')),
);

const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\.|$)/i;

function isSafe(segment: string): boolean {
  return (
    segment !== '' &&
    segment !== '.' &&
    segment !== '..' &&
    !/[\p{Cc}\p{Surrogate}/\\:*?"<>|]/u.test(segment) &&
    !/[. ]$/.test(segment) &&
    !DEVICE.test(segment) &&
    Buffer.byteLength(`${segment}.json`) <= 255
  );
}

describe('a segment below mirror/', () => {
  it.each([
    ['main', 'main'],
    ['a/b/c', 'a%2Fb%2Fc'],
    ['', '%empty'],
    ['.', '%2E'],
    ['..', '.%2E'],
    ['a.', 'a%2E'],
    ['a. ', 'a.%20'],
    ['a b', 'a b'],
    ['a\\b:c*d?e"f<g>h|i', 'a%5Cb%3Ac%2Ad%3Fe%22f%3Cg%3Eh%7Ci'],
    ['100%', '100%25'],
    ['a\nb\u0000', 'a%0Ab%00'],
    ['\u007f\u0085', '%7F%C2%85'],
    ['con', '%63on'],
    ['CON.txt', '%43ON.txt'],
    ['conin$', '%63onin$'],
    ['lpt³.log', '%6Cpt³.log'],
    ['com10', 'com10'],
    ['console', 'console'],
    ['nul.', 'nul%2E'],
    ['nul.a.', '%6Eul.a%2E'],
    ['表😀', '表😀'],
    ['\ud800', '%uD800'],
    ['x\udc00y', 'x%uDC00y'],
  ])('%j becomes %j', (text, segment) => {
    expect(encodeSegment(text)).toBe(segment);
  });

  it('keeps a text that fits, and shortens a longer one with a unique mark', () => {
    expect(encodeSegment('x'.repeat(250))).toBe('x'.repeat(250));
    expect(encodeSegment('x'.repeat(251))).toMatch(/^x{232}%~[0-9a-f]{16}$/);
    expect(encodeSegment('文'.repeat(84))).toMatch(/^文{77}%~[0-9a-f]{16}$/);
    expect(encodeSegment(`${'x'.repeat(230)}/${'x'.repeat(40)}`)).toMatch(/^x{230}%~[0-9a-f]{16}$/);
    expect(encodeSegment(`${'x'.repeat(300)}a`)).not.toBe(encodeSegment(`${'x'.repeat(300)}b`));
  });

  it('is safe for any text', () => {
    fc.assert(fc.property(anyText, (text) => isSafe(encodeSegment(text))));
  });

  it('is a different one for every text', () => {
    const differ = (one: string, other: string): boolean => encodeSegment(one) !== encodeSegment(other);
    fc.assert(fc.property(anyText, anyText, (one, other) => one === other || differ(one, other)));
  });

  it('never equals the encoding of another text: encoding twice changes every encoded text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const segment = encodeSegment(text);
        return segment === text || encodeSegment(segment) !== segment;
      }),
    );
  });

  it('can be decoded unless it was shortened', () => {
    const wellFormed = fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(wellFormed, (text) => {
        const segment = encodeSegment(text);
        return segment.includes('%~') || segment === '%empty' || decodeURIComponent(segment) === text;
      }),
    );
  });
});

describe("a repository's path", () => {
  it.each([
    ['github.com/org/plan.git', 'github.com/org/plan.git'],
    ['a//b', 'a/%empty/b'],
    ['/a/', '%empty/a/%empty'],
    ['../../etc', '.%2E/.%2E/etc'],
    ['host:8443/x.git', 'host%3A8443/x.git'],
  ])('of %j is %j', (fullName, path) => {
    expect(repositoryPath(fullName)).toBe(path);
  });

  it('is relative, made of safe segments, and different for every full name', () => {
    const fullName = fc.array(anyText, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fullName, fullName, (one, other) => {
        expect(repositoryPath(one).split('/').every(isSafe)).toBe(true);
        expect(repositoryPath(one) === repositoryPath(other)).toBe(one === other);
      }),
    );
  });
});

describe('the key of colliding names', () => {
  it.each([
    ['Plan', 'plan'],
    ['caf\u00e9', 'cafe\u0301'],
    ['STRASSE', 'straße'],
    ['\u212a', 'k'],
    ['ΣΑΣ', 'σασ'],
  ])('%j and %j are one name', (one, other) => {
    expect(foldName(one)).toBe(foldName(other));
  });

  it.each([
    ['plan', 'plan2'],
    ['e', 'é'],
  ])('%j and %j are two', (one, other) => {
    expect(foldName(one)).not.toBe(foldName(other));
  });

  it('is the same for the Unicode forms of a name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        expect(foldName(name.normalize('NFD'))).toBe(foldName(name));
      }),
    );
  });

  it('is the same for plain ASCII alone and with other letters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), (name) => {
        expect(foldName(`${name}é`)).toBe(`${foldName(name)}é`);
      }),
    );
  });
});
