import { describe, expect, it } from 'vitest';

import { escaped } from '../../../src/lib/text/terminal-text.ts';
import { type ProbeAnswer, ProbeStopped, stopAfter } from '../../../src/probe/connection.ts';
import { absenceMeaning } from '../../../src/probe/references.ts';
import { renderReport } from '../../../src/probe/report.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import { orderCandidates } from '../../../src/probe/subject.ts';
import { kindOf, shapeOf, tally } from '../../../src/probe/words.ts';
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
  it.each<[number, boolean, number, boolean]>([
    [200, true, 0, false],
    [401, true, 0, true],
    [401, false, 0, false],
    [429, true, 0, true],
    [503, true, 0, false],
    [0, true, 3, false],
    [0, true, 4, true],
  ])('status %d, own %s, silences %d: stops %s', (status, isOwn, silences, stops) => {
    const decide = (): void => stopAfter(status, isOwn, silences);
    if (stops) expect(decide).toThrow(ProbeStopped);
    else expect(decide).not.toThrow();
  });

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

it('the order of inspection begins with the repository with the fewest workbooks, and ends with empty ones', () => {
  const [a, b, c] = ['A', 'B', 'C'].map((fullName) => repository({ fullName }));
  const integrations = ['A', 'A', 'C', ...Array<string>(3).fill(b?.id ?? '')];
  const listed = integrations.map((integration) => ({ integration, branch: 'main', path: 'x' }));
  const all = [a, b, c, repository({ fullName: 'D' })].filter((each) => each !== undefined);
  expect(orderCandidates(all, listed).map(({ fullName }) => fullName)).toEqual(['C', 'A', 'B', 'D']);
});

it('the report says what was found, what it means, and why the probe ended early', () => {
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
