import { describe, expect, it } from 'vitest';

import { escaped } from '../../../src/lib/text/terminal-text.ts';
import { pauseAfter, type ProbeAnswer, ProbeStopped } from '../../../src/probe/connection.ts';
import { absenceMeaning } from '../../../src/probe/references.ts';
import { renderReport } from '../../../src/probe/report.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import { announcedBytes, orderCandidates } from '../../../src/probe/subject.ts';
import { fieldNames, kindOf, mediaType, shapeOf, tally, timeForm } from '../../../src/probe/words.ts';
import { referenceForms } from '../../../src/probe/pages.ts';
import { repository } from '../../support/builders.ts';

function answer(fields: Partial<ProbeAnswer> & { text?: string } = {}): ProbeAnswer {
  const { text = '', ...rest } = fields;
  const body = Buffer.from(text);
  return { status: 200, headers: {}, body, isWhole: true, waitMs: 0, atMs: 0, failure: null, ...rest };
}

describe('an answer in words', () => {
  it.each<[Partial<ProbeAnswer> & { text?: string }, string]>([
    [{ status: 0 }, 'no answer'],
    [{ status: 204 }, '204 empty'],
    [{ status: 404, text: '{"error":{"code":1,"message":"x"}}' }, '404 JSON {error{code, message}}'],
    [{ status: 404, text: '{"detail":"Accounting"}' }, '404 JSON {detail}'],
    [{ status: 404, text: '{"Accounting":"is missing","detail":""}' }, '404 JSON {detail, 1 other}'],
    [{ text: '[1,2]' }, '200 JSON [array]'],
    [{ text: ' <!DOCTYPE html>' }, '200 HTML page'],
    [{ text: 'hello', headers: { 'content-type': 'text/html' } }, '200 HTML page'],
    [{ text: 'PK\u0003\u0004' }, '200 zip archive'],
    [{ text: 'hello' }, '200 other'],
    [{ text: '{"torn":', headers: { 'content-type': 'application/json' } }, '200 JSON'],
  ])('is named: %j', (fields, text) => {
    expect(shapeOf(answer(fields))).toBe(text);
    expect(text).toContain(kindOf(answer(fields)));
  });

  it.each([
    [['url', 'id', 'id'], 'id, url'],
    [['id', 'Sales Europe', 'x/y.git', 'a'.repeat(40)], 'id, 3 others'],
    [['id', 'Ada_Lovelace'], 'id, 1 other'],
    [['ada', 'toString', '__proto__'], '3 others'],
    [[], ''],
  ])('shows only names of fields that are known: %j', (names, text) => {
    expect(fieldNames(names)).toBe(text);
  });

  it.each([
    [
      ['modify', 'modify', 'add', null, undefined, 7, 'a b'],
      'modify 2, (missing) 1, (no text) 1, (null) 1, (other text) 1, add 1',
    ],
    [[], ''],
  ])('counts values: %j', (values, text) => {
    expect(tally(values)).toBe(text);
  });

  it.each([
    ['2026-01-02T03:04:05.123456+00:00', 'microseconds, +00:00'],
    ['2026-01-02T03:04:05+02:00', 'no fraction, local offset'],
    ['2026-01-02T03:04:05.123Z', '3 decimals, Z'],
    ['2026-01-02 03:04:05', 'no fraction, no offset'],
    ['2 January 2026', 'another form'],
    [null, '(null)'],
    [7, '(no text)'],
  ])('names the form of the time %j', (value, form) => {
    expect(timeForm(value)).toBe(form);
  });

  it.each([
    ['Application/JSON; charset=utf-8', 'application/json'],
    [undefined, 'none'],
    ['host.example.com/secret', 'another'],
  ])('shows the media type %j', (header, text) => {
    expect(mediaType(header)).toBe(text);
  });
});

describe('what follows from an answer', () => {
  it.each<[number, Record<string, string>, boolean, number, number, number | null | 'stop']>([
    [200, {}, true, 0, 0, null],
    [404, { 'retry-after': '5' }, true, 0, 0, null],
    [401, {}, true, 0, 0, 'stop'],
    [401, {}, false, 0, 0, null],
    [429, {}, true, 0, 0, 'stop'],
    [429, { 'retry-after': '5' }, true, 0, 0, 5000],
    [429, { 'retry-after': '5' }, true, 3, 0, 'stop'],
    [429, { 'retry-after': '60' }, true, 0, 0, 'stop'],
    [503, { 'retry-after': '30' }, true, 0, 0, 30000],
    [503, {}, true, 0, 0, null],
    [0, {}, true, 0, 3, null],
    [0, {}, true, 0, 4, 'stop'],
  ])(
    'status %d, %j, own %s, pauses %d, silences %d: %s',
    (status, headers, isOwn, pauses, silences, expected) => {
      const decide = (): number | null =>
        pauseAfter({ status, headers, atMs: 0 }, isOwn, pauses, silences, 30_000);
      if (expected === 'stop') expect(decide).toThrow(ProbeStopped);
      else expect(decide()).toBe(expected);
    },
  );

  it.each([
    [404, 'gone'],
    [410, 'gone'],
    [400, 'not as proof'],
    [403, 'forbidden'],
    [200, 'success'],
    [500, 'failure'],
    [0, 'failure'],
  ])('status %d for what is not there: %s', (status, text) => {
    expect(absenceMeaning(`${status} JSON {detail}`, 'it is gone')).toContain(text);
  });
});

describe('references to pages', () => {
  const BASE = 'https://w.example.com/api';

  it.each([
    [[], 'always null'],
    [[`${BASE}/v1/workbooks?page=2`], 'absolute'],
    [['/api/v1/workbooks?page=2'], 'path'],
    [['/v1/workbooks?page=2'], 'path, without the prefix of the base address'],
    [['?page=2', '?page=3'], 'query only'],
    [['http://inner:80/api/v1/workbooks?page=2'], 'absolute, another host'],
    [['http://w.example.com/api/v1/workbooks?page=2'], 'absolute, another scheme'],
    [['http://inner/v1/workbooks?page=2'], 'absolute, another host, without the prefix of the base address'],
    [['workbooks?page=2'], 'another relative form'],
    [['//evil.example/api/v1/workbooks?page=2'], 'absolute, another host'],
    [[String.raw`/\evil.example/api/v1/workbooks`], 'absolute, another host'],
    [['//w.example.com/api/v1/workbooks?page=2'], 'without a scheme'],
    [['/api/../v1/workbooks'], 'path, without the prefix of the base address'],
    [['http://['], 'no address'],
  ])('name the form of %j', (references, form) => {
    expect(referenceForms(BASE, references)).toBe(form);
  });
});

describe('what is looked into', () => {
  it('begins with the repository of the fewest workbooks, and ends with those of none', () => {
    const [a, b, c] = ['A', 'B', 'C'].map((fullName) => repository({ fullName }));
    const listed = ['A', 'A', 'C', b?.id ?? '', b?.id ?? '', b?.id ?? ''].map((integration) => ({
      integration,
      branch: 'main',
      path: 'x',
    }));
    const all = [a, b, c, repository({ fullName: 'D' })].filter((each) => each !== undefined);
    expect(orderCandidates(all, listed).map(({ fullName }) => fullName)).toEqual(['C', 'A', 'B', 'D']);
  });

  it.each([
    [{ 'content-length': '17' }, 200, 17],
    [{ 'content-length': '0' }, 200, null],
    [{}, 200, null],
    [{ 'content-length': '17' }, 404, null],
  ])('is announced by %j and status %d: %j', (headers, status, bytes) => {
    expect(announcedBytes(answer({ headers, status }))).toBe(bytes);
  });
});

describe('the report', () => {
  it('says what was found and what it means, and why it ended early', () => {
    const finding: Finding = {
      group: 'Repositories',
      id: 'repositories.ids',
      section: '2.1',
      kind: 'required',
      statement: 'id is a UUID',
      outcome: 'differs',
      answer: '1 of 2: an id is no UUID',
      meaning: 'the mirror takes any text',
    };
    const stopped = 'all 7 requests were used up';
    const report = renderReport({ format: 2, requests: 7, stopped, findings: [finding] }, escaped);
    const [group, end] = String(report).split('\n\n');
    expect(group?.split('\n').map((line) => line.trim())).toEqual([
      'Repositories',
      'differs    id is a UUID (the API, section 2.1)',
      '1 of 2: an id is no UUID',
      '→ the mirror takes any text',
    ]);
    expect(end).toContain('It ended early: all 7 requests were used up. 7 requests were sent');
    expect(end).toContain('1 statements of the specification do not hold');
  });
});
