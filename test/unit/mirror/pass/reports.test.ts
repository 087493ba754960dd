import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { reportFailures } from '../../../../src/mirror/pass/reports.ts';
import type { ReportedFailures } from '../../../../src/mirror/state/schemas.ts';
import { row } from '../../../support/builders.ts';

const FAILED = row({ failure: 2 });

type Poll = readonly WorkbookRow[] | { readonly incomplete: readonly WorkbookRow[] };

/** The events of polls that follow each other, as `failed v1 2` or `recovered v1`. */
function told(...polls: readonly Poll[]): string[][] {
  let reported: ReportedFailures = {};
  return polls.map((poll) => {
    const isIncomplete = 'incomplete' in poll;
    const result = reportFailures(reported, isIncomplete ? poll.incomplete : poll, !isIncomplete);
    reported = structuredClone(result.reported);
    return result.events.map((event) => {
      if (event.name === 'upstream.workbook_failed') return `failed ${event.versionId} ${event.count}`;
      return event.name === 'upstream.workbook_recovered' ? `recovered ${event.versionId}` : event.name;
    });
  });
}

describe("the service's failures", () => {
  it('name workbook, branch and version', () => {
    const workbook = { workbookId: 'Accounting/plan.xlsx', versionId: 'v1', branch: 'main' };
    const event = { name: 'upstream.workbook_failed', ...workbook, count: 2 };
    expect(reportFailures({}, [FAILED], true).events).toEqual([event]);
  });

  const AGAIN = row({ failure: 3 });
  const NEWER = row({ versionId: 'v2' });
  const OTHER = row({ versionId: 'v2', failure: 2 });

  it.each<[string, Poll[], string[][]]>([
    ['again at another count', [[FAILED], [AGAIN], [AGAIN]], [['failed v1 2'], ['failed v1 3'], []]],
    ['again at another version', [[FAILED], [OTHER]], [['failed v1 2'], ['failed v2 2']]],
    ['and once more when they clear', [[FAILED], [NEWER], [NEWER]], [['failed v1 2'], ['recovered v2'], []]],
    [
      'again after they cleared',
      [[OTHER], [NEWER], [OTHER]],
      [['failed v2 2'], ['recovered v2'], ['failed v2 2']],
    ],
    ['never if nothing failed', [[NEWER]], [[]]],
    ['for every branch', [[FAILED, row({ branch: 'dev', failure: 1 })]], [['failed v1 2', 'failed v1 1']]],
    [
      'not again after an incomplete list',
      [[FAILED], { incomplete: [] }, [FAILED]],
      [['failed v1 2'], [], []],
    ],
    [
      'from an incomplete list',
      [{ incomplete: [OTHER] }, { incomplete: [NEWER] }],
      [['failed v2 2'], ['recovered v2']],
    ],
    ['again after a list without them', [[FAILED], [], [FAILED]], [['failed v1 2'], [], ['failed v1 2']]],
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
        const steps = polls.flatMap(([rows, isComplete]) => {
          const poll = isComplete ? rows : { incomplete: rows };
          return [poll, poll];
        });
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
