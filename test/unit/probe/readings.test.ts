import { array, assert, integer, property, stringMatching } from 'fast-check';
import { describe, expect, it } from 'vitest';

import { escaped } from '../../../src/lib/text/terminal-text.ts';
import { compareTimes } from '../../../src/probe/archive.ts';
import { pauseAfter, ProbeStopped } from '../../../src/probe/asker.ts';
import { absenceMeaning } from '../../../src/probe/references.ts';
import type { Finding } from '../../../src/probe/table.ts';
import { type PageParameter, parameterWorks, referenceForms } from '../../../src/probe/pages.ts';
import { columnsFor, renderReport, wrap } from '../../../src/probe/report.ts';
import { NO_ANSWER, type ProbeAnswer } from '../../../src/probe/connection.ts';
import { announcedBytes, orderCandidates } from '../../../src/probe/subject.ts';
import { products } from '../../../src/probe/transport.ts';
import { fieldNames, kindOf, mediaType, shapeOf, tally, timeForm } from '../../../src/probe/words.ts';
import { pageOf, type PageSeen } from '../../../src/probe/workbook-list.ts';
import { repository } from '../../support/builders.ts';

function answer(fields: Partial<ProbeAnswer> & { text?: string } = {}): ProbeAnswer {
  const { text = '', ...rest } = fields;
  return { ...NO_ANSWER, status: 200, isWhole: true, atMs: 0, body: Buffer.from(text), ...rest };
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

  it.each([
    ['nginx/1.25.3', 'nginx/1.25.3'],
    ['Apache/2.4.1 (Debian) PHP/8.2', 'Apache/2.4.1 PHP/8.2'],
    ['proxy01.corp.example', 'another'],
    ['nginx/corp-build', 'nginx'],
  ])('shows of the server %j what is no name', (header, text) => {
    expect(products(header)).toBe(text);
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
    expect(absenceMeaning(answer({ status }), 'it is gone')).toContain(text);
  });
});

describe('pages', () => {
  const rows = ['a', 'b', 'c', 'd'].map((id) => ({ id }));
  const page = (results: unknown[], count = 4): ProbeAnswer =>
    answer({ text: JSON.stringify({ count, next: null, previous: null, results }) });
  const seen = (...cuts: [number, number][]): PageSeen[] =>
    cuts.map(([from, to]) => ({ count: 4, next: null, previous: null, rows: rows.slice(from, to), odd: 0 }));

  it.each<[PageParameter, ProbeAnswer, PageSeen[], boolean | null]>([
    ['page', page(rows.slice(2)), seen([0, 2], [2, 4]), true],
    ['page', page(rows.slice(0, 2)), seen([0, 2], [2, 4]), false],
    ['page', answer({ status: 404 }), seen([0, 4]), true],
    ['page', page([]), seen([0, 4]), true],
    ['page', page(rows), seen([0, 4]), false],
    ['page', answer({ status: 500 }), seen([0, 4]), false],
    ['page_size', page(rows.slice(0, 1)), seen([0, 4]), true],
    ['per_page', page(rows), seen([0, 4]), false],
    ['limit', answer({ status: 400 }), seen([0, 4]), false],
    ['limit', page(rows.slice(0, 1)), seen([0, 1], [1, 2]), null],
    ['offset', page(rows.slice(1)), seen([0, 4]), true],
    ['offset', page(rows), seen([0, 4]), false],
    ['limit with offset', page(rows.slice(1, 2)), seen([0, 4]), true],
    ['limit with offset', page(rows), seen([0, 4]), false],
    ['page', page([], 0), [{ count: 0, next: null, previous: null, rows: [], odd: 0 }], null],
    ['offset', page(rows), [], null],
  ])('tell whether %s works', (name, given, pages, works) => {
    expect(parameterWorks(name, given, pages)).toBe(works);
  });

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

  it('are pages only where all of it is', () => {
    expect(pageOf(answer({ text: '{"count":"4"}' }))).toBeNull();
    expect(pageOf(answer({ status: 404, text: '{"count":0,"results":[]}' }))).toBeNull();
    expect(pageOf(page([7, { id: 'a' }]))).toMatchObject({ odd: 1, rows: [{ id: 'a' }] });
  });
});

describe('the times of files', () => {
  const at = (minutes: number): number => minutes * 60_000;
  const compare = (files: number[], versions: number[]): string =>
    compareTimes(
      new Map(files.map((time, index) => [String(index), { modifiedAtMs: time }])),
      new Map(versions.map((time, index) => [String(index), time])),
    );

  it.each([
    [[at(10), at(20)], [at(10) + 1500, at(20)], 'yes'],
    [[at(70), at(80)], [at(10), at(20)], 'no: all shifted by 60 minutes'],
    [[at(10), at(20)], [at(340), at(350)], 'no: all shifted by -330 minutes'],
    [[at(50_000), at(50_000)], [at(10), at(20)], 'no: all files have one time'],
    [[at(10), at(99)], [at(10), at(20)], '1 of 2'],
    [[], [at(10)], 'nothing to compare'],
    [[at(10)], [Number.NaN], 'nothing to compare'],
  ])('%j beside those of versions %j: %s', (files, versions, answer) => {
    expect(compare(files, versions)).toBe(answer);
  });
});

describe('what is looked into', () => {
  it('begins with the repository of the fewest workbooks, and ends with those of none', () => {
    const [a, b, c] = ['A', 'B', 'C'].map((fullName) => repository({ fullName }));
    const listed = ['A', 'A', 'C', b?.id ?? '', b?.id ?? '', b?.id ?? ''].map((integration) => ({
      integration,
      branch: 'main',
      path: 'x',
      createdAt: null,
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

describe('the table', () => {
  const text = array(stringMatching(/^[a-z]{1,30}$/), { minLength: 1, maxLength: 20 }).map((words) =>
    words.join(' '),
  );

  it('loses no word when it wraps, and keeps to its width', () => {
    assert(
      property(text, integer({ min: 1, max: 60 }), (line, width) => {
        const lines = wrap(line, width);
        expect(lines.every((each) => each.length <= width)).toBe(true);
        expect(lines.join('').replaceAll(' ', '')).toBe(line.replaceAll(' ', ''));
      }),
    );
  });

  it('is no wider than the terminal, down to what three columns need', () => {
    const finding = (question: string, said: string, meaning: string): Finding => ({
      group: 'Transport',
      id: 'x',
      question,
      answer: said,
      meaning,
    });
    assert(
      property(text, text, text, integer({ min: 80, max: 250 }), (one, two, three, width) => {
        const findings = [finding(one, two, three)];
        const { question, answer: said, meaning } = columnsFor(findings, width);
        expect(question + said + meaning + 6).toBeLessThanOrEqual(width);
        const table = renderReport({ format: 1, requests: 7, stopped: null, findings }, width, escaped);
        const [body = ''] = String(table).split('\n\n7 requests');
        expect(body.split('\n').every((line) => line.length <= width)).toBe(true);
      }),
    );
  });

  it('says why it ended early', () => {
    const table = renderReport(
      { format: 1, requests: 7, stopped: 'all 7 requests were used up', findings: [] },
      100,
      escaped,
    );
    expect(String(table)).toContain('It ended early: all 7 requests were used up. 7 requests were sent');
  });
});
