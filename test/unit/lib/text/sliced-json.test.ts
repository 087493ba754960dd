import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { parseSliced, parseWhole } from '../../../../src/lib/text/sliced-json.ts';

/** The object with its array, as `JSON.parse` gives it; null if the text is not JSON. */
function whole(json: Buffer): unknown {
  return putTogether(json, parseSliced) ?? putTogether(json, parseWhole);
}

function putTogether(json: Buffer, parse: typeof parseSliced): unknown {
  try {
    const { object, elements } = parse(json, 'files');
    const files = [...elements];
    if (typeof object !== 'object' || object === null || Array.isArray(object)) return object;
    const isEmptyArray = 'files' in object && Array.isArray(object.files) && object.files.length === 0;
    return isEmptyArray ? { ...object, files } : object;
  } catch {
    return null;
  }
}

function parsed(json: Buffer): unknown {
  try {
    return JSON.parse(json.toString('utf8'));
  } catch {
    return null;
  }
}

/** Long enough that three of them are in different slices. */
const LONG = ' [{"x\\'.repeat(20_000);

const element = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<fc.JsonValue>(LONG, [LONG, ','], { files: [LONG] }, '}', ']', '"', '\\', ',', ':', '\\"'),
);
const object = fc.record(
  {
    before: fc.jsonValue({ maxDepth: 2 }),
    files: fc.oneof({ weight: 5, arbitrary: fc.array(element, { maxLength: 12 }) }, fc.jsonValue()),
    'fil"es': element,
    inner: fc.record({ files: fc.array(element, { maxLength: 2 }) }),
  },
  { requiredKeys: [] },
);
const text = fc
  .tuple(fc.oneof({ weight: 9, arbitrary: object }, fc.jsonValue()), fc.constantFrom(undefined, 1, 3))
  .map(([value, indent]) => Buffer.from(JSON.stringify(value, null, indent)));

describe('JSON in slices', () => {
  it('has the same value as in one piece', () => {
    fc.assert(
      fc.property(text, (json) => {
        expect(whole(json)).toStrictEqual(parsed(json));
      }),
      { numRuns: 300 },
    );
  });

  it('is valid exactly if the whole text is, after any change', () => {
    const change = fc.tuple(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(3),
      fc.constantFrom(
        '',
        '[',
        ']',
        '{',
        '}',
        ',',
        ':',
        '"',
        '\\',
        ' ',
        '1',
        '"files":[2]',
        '"files":7',
        ',"files":[],',
      ),
    );
    fc.assert(
      fc.property(text, fc.array(change, { minLength: 1, maxLength: 2 }), (json, changes) => {
        let changed = json;
        for (const [share, removed, added] of changes) {
          const at = Math.floor(share * changed.length);
          changed = Buffer.concat([
            changed.subarray(0, at),
            Buffer.from(added),
            changed.subarray(at + removed),
          ]);
        }
        expect(whole(changed)).toStrictEqual(parsed(changed));
      }),
      { numRuns: 1000 },
    );
  });

  it('is read in slices if JSON.stringify indents it by one space', () => {
    const files = Array.from({ length: 5000 }, (_, size) => ({ path: '}\n  },\n  {'.repeat(9), size }));
    const json = Buffer.from(JSON.stringify({ branch: 'main', files, format: 1 }, null, 1));
    const { object, elements } = parseSliced(json, 'files');
    expect(object).toStrictEqual({ branch: 'main', files: [], format: 1 });
    expect(Array.isArray(elements)).toBe(false);
    expect([...elements]).toStrictEqual(files);
  });

  it.each([
    '{\n "files": [\n  1], "other": [2\n ]\n}',
    '{\n "files": [],\n "other": [\n  1\n ]\n}',
    '{\n "files": [\n  {\n  },\n ]\n}',
    '{"inner": {\n "files": [\n  1\n ]\n}}',
    '{"files":[1,2]}',
    '{"files":[]}',
    '{"files":[ ]}',
    '{"files":[,]}',
    '{"files":[1,]}',
    '{"files":[1}',
    '{"files":[1],"files":[2,3]}',
    '{"files":[1],"files":{"files":[2]}}',
    '{"files":5,"files":[2]}',
    '{"f\\u0069les":[1]}',
    '{"other":"files","a":[1]}',
    '["files",[1]]',
    '{"files":[1]}]',
    '\ufeff{"files":[1]}',
    '',
    '"',
    `{"files":["${'x'.repeat(300_000)}",,1]}`,
    `{"files":["${'x'.repeat(300_000)}",]}`,
    `{"files":["${'x'.repeat(300_000)}", 1]}`,
  ])('accepts %j exactly if JSON.parse does', (json) => {
    expect(whole(Buffer.from(json))).toStrictEqual(parsed(Buffer.from(json)));
  });
});
