import { execFileSync, spawn } from 'node:child_process';
import {
  mkdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';

import { beforeEach, describe, expect, it } from 'vitest';

import { addressInPlaceOfKey, fileSecret, inlineSecret } from '../../../src/config/secret.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const oneSecret = (text: string): readonly string[] => inlineSecret(text).revealAll();
const severalKeys = (text: string) => inlineSecret(text, addressInPlaceOfKey, true).revealAll();

describe('a secret', () => {
  it('gives its value only by reveal()', () => {
    const secret = inlineSecret('s3cret');
    expect(secret.reveal()).toBe('s3cret');
    const outputs = [
      String(secret),
      secret.toString(),
      JSON.stringify({ secret }),
      inspect({ deep: { secret } }, { showHidden: true, depth: 9 }),
      JSON.stringify(Object.assign({}, secret)),
      JSON.stringify(structuredClone({ secret })),
      Object.keys(secret).join(),
    ];
    expect(outputs.join()).not.toContain('s3cret');
    expect(outputs.slice(0, 3)).toEqual(['***', '***', '{"secret":"***"}']);
  });

  it.each([
    ['key\n', 'key'],
    ['key\r\n', 'key'],
    ['key\n\n', 'key'],
    ['k!#$%&+/=', 'k!#$%&+/='],
    ['QmFzZTY0Cg==', 'QmFzZTY0Cg=='],
    ['/etc+b64/x', '/etc+b64/x'],
  ])('%j is %j', (text, value) => {
    expect(oneSecret(text)).toStrictEqual([value]);
    expect(severalKeys(text)).toStrictEqual([value]);
  });

  it.each(['', '\n', '\r\n'])('%j is empty', (text) => {
    expect(() => oneSecret(text)).toThrow('is empty');
    expect(() => severalKeys(text)).toThrow('is empty');
  });
});

describe('several keys', () => {
  it.each([
    ['one\ntwo', ['one', 'two']],
    ['one\r\n\r\ntwo\r\n', ['one', 'two']],
    ['\none\n\ntwo\n\n', ['one', 'two']],
    ['two\none\ntwo\n', ['two', 'one']],
  ])('%j are %j', (text, keys) => {
    expect(severalKeys(text)).toStrictEqual(keys);
    const secret = inlineSecret(text, addressInPlaceOfKey, true);
    expect(secret.revealAll()).toStrictEqual(keys);
    expect(secret.reveal()).toBe(keys[0]);
    expect(`${String(secret)} ${JSON.stringify(secret)} ${inspect(secret)}`).not.toMatch(/one|two/);
  });

  it.each([
    ['go0d\n"qu0ted"\n', /^line 2 has quotes or brackets around it/],
    ['go0d\n\nAPI_KEY=v4lue', /^line 3 is a line NAME=value/],
    ['go0d\nhttps://h/p4th', /^line 2 is an address/],
    ['# c0mment\ngo0d', /^line 1 holds a space/],
    ['a w0rd more', /^holds a space/],
    [Array.from({ length: 11 }, (_, index) => `k3y${index}`).join('\n'), /^holds more than 10 keys/],
  ])('%j is refused by the number of the line, without its text', (text, message) => {
    const error = caught(() => severalKeys(text));
    expect(error.message).toMatch(message);
    for (const part of ['go0d', 'qu0ted', 'v4lue', 'p4th', 'c0mment', 'w0rd', 'k3y'])
      expect(error.message).not.toContain(part);
  });

  it('are one secret only if several make sense', () => {
    expect(() => oneSecret('one\ntwo')).toThrow('holds a space, a line break');
  });
});

const HOLDS_MORE =
  'holds a space, a line break, an invisible character or a letter outside of ASCII: give the key alone, in UTF-8 without a byte order mark';

/** A secret in every text below; no message may contain it. */
const KEY = 'k3y-S3CRET';

/** Texts that people paste instead of a key, with the expected message. */
const PASTED: ReadonlyArray<readonly [string, RegExp]> = [
  [`"${KEY}"`, /quotes or brackets around it/],
  [`${KEY}'`, /quotes or brackets around it/],
  [`{"apiKey": "${KEY}"}`, /quotes or brackets around it/],
  [`export WORKBOOK_MIRROR_SERVICE_API_KEY="${KEY}"`, /is a line NAME=value/],
  [`https://workbooks.example.com/${KEY}`, /is an address/],
  [`Bearer ${KEY}`, /holds a space/],
  [`-----BEGIN PRIVATE KEY-----\n${KEY}\n`, /holds a space/],
  [`\uFEFF${KEY}`, /byte order mark/],
  [`${KEY}\u200B`, /an invisible character/],
  [`${KEY}\t`, /an invisible character/],
  [Buffer.from(`\uFEFF${KEY}`, 'utf16le').toString(), /byte order mark/],
  [`\${${KEY}}`, /is a placeholder, or a variable/],
  ['{{ .Values.apiKey }}', /quotes or brackets|placeholder/],
  ['%API_KEY%', /is a placeholder, or a variable/],
  ['<API_KEY>', /is a placeholder/],
  ['********', /is a placeholder/],
  ['/run/secrets/api-key', /is the path of a file: give it by the setting whose name ends with File/],
  ['C:\\keys\\api-key', /is the path of a file/],
];

describe('a text that is obviously more than a key', () => {
  it.each(PASTED)('is refused with a remedy, and not shown: %j', (text, message) => {
    const error = caught(() => severalKeys(text));
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain(KEY);
  });

  it.each(['QmFz/ZTY0+a==', '/varA9:$-_.~!*', 'eyJhbGciOi.eyJzdWIi.c2ln-_'])('is not %j', (text) => {
    expect(severalKeys(text)).toStrictEqual([text]);
  });
});

function caught(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new TypeError('nothing was thrown');
}

describe('a secret in a file', () => {
  let folder = '';
  let path = '';
  beforeEach(async () => {
    folder = await temporaryFolder();
    path = join(folder, 'key');
  });

  it('is read again when the file is written', () => {
    writeFileSync(path, 'one\n');
    const secret = fileSecret(path);
    expect(secret.reveal()).toBe('one');
    writeFileSync(path, 'three\n');
    expect(secret.reveal()).toBe('three');
  });

  it('is read again after a replacement of the same size and time', () => {
    writeFileSync(path, 'one');
    const secret = fileSecret(path);
    const { atime, mtime } = statSync(path);
    writeFileSync(`${path}.new`, 'two');
    utimesSync(`${path}.new`, atime, mtime);
    renameSync(`${path}.new`, path);
    expect(secret.reveal()).toBe('two');
  });

  it('follows a symbolic link that is switched', () => {
    writeFileSync(`${path}.1`, 'one');
    writeFileSync(`${path}.2`, 'two');
    symlinkSync(`${path}.1`, path);
    const secret = fileSecret(path);
    symlinkSync(`${path}.2`, `${path}.link`);
    renameSync(`${path}.link`, path);
    expect(secret.reveal()).toBe('two');
  });

  it('keeps the last good value while the file is missing, empty or unusable', () => {
    writeFileSync(path, 'good');
    const secret = fileSecret(path, addressInPlaceOfKey);
    for (const bad of ['', '\n', 'a\nb', 'https://h/', 'x'.repeat(70_000)]) {
      writeFileSync(path, bad);
      expect(secret.reveal()).toBe('good');
    }
    rmSync(path);
    expect(secret.reveal()).toBe('good');
    mkdirSync(path);
    for (const _ of ['first', 'second']) expect(secret.reveal()).toBe('good');
    rmdirSync(path);
    writeFileSync(path, 'better');
    expect(secret.reveal()).toBe('better');
  });

  it.each([
    ['', /content of .*key: is empty/],
    ['a\nb', /content of .*key: holds a space, a line break/],
    ['x'.repeat(70_000), /expected a file that holds nothing but the secret/],
  ])('is refused at the start where it is unusable', (content, message) => {
    writeFileSync(path, content);
    expect(() => fileSecret(path)).toThrow(message);
  });

  it('names the file and line of an unusable key, but not its text', () => {
    writeFileSync(path, 'good\nb4d key\n');
    const { message } = caught(() => fileSecret(path, addressInPlaceOfKey, true));
    expect(message).toBe(`the content of ${path}: line 2 ${HOLDS_MORE}`);
  });

  it('gives all its keys after a line is added', () => {
    writeFileSync(path, 'old\n');
    const secret = fileSecret(path, addressInPlaceOfKey, true);
    writeFileSync(path, 'old\nnew\n');
    expect(secret.revealAll()).toStrictEqual(['old', 'new']);
  });

  it('is refused at the start if it cannot be read', () => {
    expect(() => fileSecret(path)).toThrow('file that can be read (ENOENT)');
    expect(() => fileSecret(folder)).toThrow('file that can be read (EISDIR)');
  });

  it('is read only once from a pipe', () => {
    execFileSync('mkfifo', [path]);
    spawn('sh', ['-c', 'echo piped > "$1"', 'sh', path], { stdio: 'ignore' });
    const secret = fileSecret(path);
    expect([secret.reveal(), secret.reveal()]).toEqual(['piped', 'piped']);
    // Settings that are loaded again do not wait for another writer.
    expect(fileSecret(path).reveal()).toBe('piped');
  });
});
