import type { Bench } from './bench.ts';
import { dataSet, type DataSetSpec } from './data-set.ts';

const MIB = 1024 * 1024;

/** D1: 8 repositories of 15,000 files, 100 MB of archives in all. */
export function manySmall({ options: { isQuick } }: Bench): DataSetSpec {
  return dataSet('D1', {
    repositories: 8,
    filesEach: isQuick ? 100 : 1875,
    largeFiles: 3,
    largeBytes: 1_500_000,
  });
}

/** D2: one repository of 500 workbooks, 2 GiB of what does not compress; half of them stored, half deflated. */
export function fewLarge(
  { options: { isQuick } }: Bench,
  kind: DataSetSpec['kind'] = 'drag-and-drop',
): DataSetSpec {
  return dataSet(kind === 'git' ? 'D2 in Git' : 'D2', {
    filesEach: isQuick ? 25 : 500,
    leastBytes: 2 * MIB,
    mostBytes: 12 * MIB,
    packings: ['stored', 'wrapped'],
    kind,
  });
}
