import { describe, expect, it } from 'vitest';

import { escaped } from '../../../src/lib/text/terminal-text.ts';
import { pauseAfter, type ProbeAnswer, ProbeStopped } from '../../../src/probe/connection.ts';
import { absenceMeaning } from '../../../src/probe/references.ts';
import { renderReport } from '../../../src/probe/report.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import { orderCandidates } from '../../../src/probe/subject.ts';
import { kindOf, shapeOf, tally } from '../../../src/probe/words.ts';
import { whereTo } from '../../../src/probe/pages.ts';
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
    [{ status: 404, text: '{"error":{"code":1,"message":"x"}}' }, '404 JSON'],
    [{ text: '[1,2]' }, '200 JSON'],
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
    [['modify', 'modify', 'add', null, undefined, 7, 'a b'], 'modify 2, add 1, (no word) 4'],
    [[], ''],
  ])('counts values: %j', (values, text) => {
    expect(tally(values)).toBe(text);
  });
});

describe('the conclusion from an answer', () => {
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
  ])('status %d for a missing object: %s', (status, text) => {
    expect(absenceMeaning(`${status} JSON`, 'it is gone')).toContain(text);
  });
});

describe('references to pages', () => {
  const BASE = 'https://w.example.com/api';

  it.each([
    [[], 'always null'],
    [[`${BASE}/v1/workbooks?page=2`], 'the base address'],
    [['/api/v1/workbooks?page=2'], 'the base address'],
    [['/v1/workbooks?page=2'], 'without the prefix of the base address'],
    [['?page=2', '?page=3'], 'the base address'],
    [['http://inner:80/api/v1/workbooks?page=2'], 'another origin'],
    [['http://w.example.com/api/v1/workbooks?page=2'], 'another origin'],
    [['http://inner/v1/workbooks?page=2'], 'another origin'],
    [['workbooks?page=2'], 'the base address'],
    [['//evil.example/api/v1/workbooks?page=2'], 'another origin'],
    [[String.raw`/\evil.example/api/v1/workbooks`], 'another origin'],
    [['//w.example.com/api/v1/workbooks?page=2'], 'the base address'],
    [['/api/../v1/workbooks'], 'without the prefix of the base address'],
    [['http://['], 'no address'],
  ])('lead somewhere: %j', (references, place) => {
    expect(whereTo(BASE, references)).toBe(place);
  });
});

describe('the order of inspection', () => {
  it('begins with the repository with the fewest workbooks, and ends with empty ones', () => {
    const [a, b, c] = ['A', 'B', 'C'].map((fullName) => repository({ fullName }));
    const listed = ['A', 'A', 'C', b?.id ?? '', b?.id ?? '', b?.id ?? ''].map((integration) => ({
      integration,
      branch: 'main',
      path: 'x',
    }));
    const all = [a, b, c, repository({ fullName: 'D' })].filter((each) => each !== undefined);
    expect(orderCandidates(all, listed).map(({ fullName }) => fullName)).toEqual(['C', 'A', 'B', 'D']);
  });
});

describe('the report', () => {
  it('says what was found, what it means, and why the probe ended early', () => {
    const finding: Finding = {
      group: 'Repositories',
      id: 'repositories.ids',
      section: '2.1',
      kind: 'required',
      statement: 'id is a UUID',
      outcome: 'differs',
      answer: '1 of 2: an id is not a UUID',
      meaning: 'the mirror takes any text',
    };
    const stopped = 'all 7 requests were used up';
    const report = renderReport({ format: 2, requests: 7, stopped, findings: [finding] }, escaped);
    const [group, end] = String(report).split('\n\n');
    expect(group?.split('\n').map((line) => line.trim())).toEqual([
      'Repositories',
      'differs    id is a UUID (the API, section 2.1)',
      '1 of 2: an id is not a UUID',
      '→ the mirror takes any text',
    ]);
    expect(end).toContain('It ended early: all 7 requests were used up. 7 requests were sent');
    expect(end).toContain('1 statements of the specification do not hold');
  });
});
