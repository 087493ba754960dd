import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { scrub, scrubbed } from '../../../../src/lib/text/scrub.ts';

describe('a text that is scrubbed', () => {
  it.each([
    ['the key is s3cr3t-key.', ['s3cr3t-key'], 'the key is [secret].'],
    ['one and other', ['other', 'one!'], 'one and [secret]'],
    [String.raw`{"key":"a\"b\\c"}`, [String.raw`a"b\c`], '{"key":"[secret]"}'],
    ['?token=a%2Fb%3D%3D', ['a/b=='], '?token=[secret]'],
    ['aaaa.aaaa', ['a.a.', 'aaaa'], '[secret].[secret]'],
    ['a.*b and axxb', ['a.*b'], '[secret] and axxb'],
    ['$& $1', ['$& $'], '[secret]1'],
    ['nothing here', [], 'nothing here'],
    ['', ['s3cr3t'], ''],
  ])('%j without %j is %j', (text, secrets, clean) => {
    expect(scrub(text, secrets)).toBe(clean);
  });

  it.each([[''], ['a'], ['abc']])('keeps a text too short for a secret: %j', (secret) => {
    expect(scrub('abc a b c', [secret])).toBe('abc a b c');
  });

  it('no longer has its secrets, neither bare nor in JSON nor in an address', () => {
    const secret = fc.string({ minLength: 8, unit: 'grapheme' }).filter((each) => !'[secret]'.includes(each));
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (key, before, behind) => {
        for (const form of [key, JSON.stringify(key), encodeURIComponent(key)]) {
          const clean = scrub(`${before}${form}${behind}`, [key]);
          expect(clean.includes(key) && !`${before}${behind}`.includes(key)).toBe(false);
          expect(clean).toContain('[secret]');
        }
      }),
    );
  });

  it('keeps no end of a secret that begins like another one', () => {
    expect(scrub('the key is abcd-1234-5678', ['abcd', 'abcd-1234-5678'])).not.toContain('5678');
  });
});

it('a value keeps the words of the program, although a secret is one of them', () => {
  const event = { name: 'pass.finished', code: 'service.busy', message: 'the pass', reason: 'a pass' };
  expect(scrubbed(event, ['pass', 'service'])).toEqual({
    name: 'pass.finished',
    code: 'service.busy',
    message: 'the [secret]',
    reason: 'a [secret]',
  });
});
