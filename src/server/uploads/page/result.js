/** Shows the result of an upload. */

import { byId, element, fill } from '../../../lib/page/dom.js';
import { filesText, writePlace } from './format.js';
import { targetText } from './plan.js';

/**
 * @param {{ commitId: string, fileCount: number, target: import('./plan.js').Target, isShown: boolean } | null} result null
 *   to show nothing; whether the page shows where the files are
 */
export function showResult(result) {
  const place = byId('result');
  if (result === null) return fill(place);
  const { commitId, fileCount, target, isShown } = result;
  const { repositoryId, branch, folder } = target;
  fill(
    place,
    element(
      'p',
      { class: 'good' },
      `${filesText(fileCount)} committed to ${targetText(target)}: commit `,
      element('code', { title: commitId }, commitId.slice(0, 7)),
      '. ',
      isShown
        ? null
        : element('a', { href: writePlace({ repositoryId, branch, path: folder }) }, 'Look there'),
    ),
  );
}
