import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { reportFailures } from '../../../../src/mirror/pass/reports.ts';
import type { ReportedFailures } from '../../../../src/mirror/state/schemas.ts';
import { row } from '../../../support/builders.ts';

const FAILED = row({ failure: 2 });

interface Poll {
  readonly rows: readonly WorkbookRow[];
  readonly isComplete?: boolean;
}

/** The events of polls that follow each other, as `failed v1 2` or `recovered v1`. */
function told(...polls: readonly Poll[]): string[][] {
  let reported: ReportedFailures = {};
  return polls.map(({ rows, isComplete = true }) => {
    const result = reportFailures(reported, rows, isComplete);
    reported = structuredClone(result.reported);
    return result.events.map((event) => {
      if (event.name === 'upstream.workbook_failed') return `failed ${event.versionId} ${event.count}`;
      return event.name === 'upstream.workbook_recovered' ? `recovered ${event.versionId}` : event.name;
    });
  });
}

describe("the service's failures", () => {
  it('name workbook, branch and version', () => {
    expect(reportFailures({}, [FAILED], true).events).toEqual([
      {
        name: 'upstream.workbook_failed',
        workbookId: 'Accounting/plan.xlsx',
        versionId: 'v1',
        branch: 'main',
        count: 2,
      },
    ]);
  });

  it.each<[string, Poll[], string[][]]>([
    ['once', [{ rows: [FAILED] }, { rows: [FAILED] }], [['failed v1 2'], []]],
    [
      'again at another count',
      [{ rows: [FAILED] }, { rows: [row({ failure: 3 })] }, { rows: [row({ failure: 3 })] }],
      [['failed v1 2'], ['failed v1 3'], []],
    ],
    [
      'again at another version',
      [{ rows: [FAILED] }, { rows: [row({ failure: 2, versionId: 'v2' })] }],
      [['failed v1 2'], ['failed v2 2']],
    ],
    [
      'and once more when they clear',
      [{ rows: [FAILED] }, { rows: [row({ versionId: 'v2' })] }, { rows: [row({ versionId: 'v2' })] }],
      [['failed v1 2'], ['recovered v2'], []],
    ],
    [
      'again after they cleared',
      [{ rows: [FAILED] }, { rows: [row()] }, { rows: [FAILED] }],
      [['failed v1 2'], ['recovered v1'], ['failed v1 2']],
    ],
    ['never if nothing failed', [{ rows: [row()] }], [[]]],
    [
      'for every branch',
      [{ rows: [FAILED, row({ branch: 'dev', failure: 1 })] }],
      [['failed v1 2', 'failed v1 1']],
    ],
    [
      'not again after an incomplete list without them',
      [{ rows: [FAILED] }, { rows: [], isComplete: false }, { rows: [FAILED] }],
      [['failed v1 2'], [], []],
    ],
    [
      'also from an incomplete list',
      [
        { rows: [FAILED], isComplete: false },
        { rows: [row()], isComplete: false },
      ],
      [['failed v1 2'], ['recovered v1']],
    ],
    [
      'again after a complete list without them',
      [{ rows: [FAILED] }, { rows: [] }, { rows: [FAILED] }],
      [['failed v1 2'], [], ['failed v1 2']],
    ],
  ])('are reported %s', (_what, polls, events) => {
    expect(told(...polls)).toEqual(events);
  });

  it('are reported once, until something changes', () => {
    const someRow = fc
      .record({
        path: fc.constantFrom('a', '__proto__', 'b'),
        branch: fc.constantFrom('main', 'dev'),
        failure: fc.constantFrom(0, 1, 2),
      })
      .map((fields) => row(fields));
    const someRows = fc.uniqueArray(someRow, { selector: ({ id, branch }) => `${id}\n${branch}` });
    fc.assert(
      fc.property(fc.array(fc.tuple(someRows, fc.boolean()), { minLength: 1, maxLength: 6 }), (polls) => {
        const steps = polls.flatMap(([rows, isComplete]) => [
          { rows, isComplete },
          { rows, isComplete },
        ]);
        for (const [index, events] of told(...steps).entries())
          if (index % 2 === 1) expect(events).toEqual([]);
      }),
    );
  });

  it('do not change earlier reports', () => {
    const { reported } = reportFailures({}, [FAILED], true);
    const before = structuredClone(reported);
    reportFailures(reported, [row(), row({ path: 'b', failure: 1 })], false);
    expect(reported).toEqual(before);
  });
});
