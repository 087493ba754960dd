/** What came of an upload. */

import { byId, element, fill } from './dom.js';
import { filesText } from './format.js';

/**
 * @param {{ commitId: string, branch: string, fileCount: number, folder: string } | null} result null to show nothing
 */
export function showResult(result) {
  const place = byId('result');
  if (result === null) return fill(place);
  const { commitId, branch, fileCount, folder } = result;
  fill(
    place,
    element(
      'p',
      { class: 'good' },
      `${filesText(fileCount)} committed to ${branch}${folder === '' ? '' : `, folder ${folder}`}: commit `,
      element('code', { title: commitId }, commitId.slice(0, 7)),
      '.',
    ),
  );
}
