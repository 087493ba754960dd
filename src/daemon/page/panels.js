/** The matters that need attention, and the cards around the table. */

import { button, byId, element, setText } from './dom.js';
import { sizeText } from '../../lib/page/text.js';
import { CREDENTIAL_NAMES } from './attention.js';
import { counted } from './format.js';
import { badge, fact, refill, sign, timeNode } from './nodes.js';

/** @import { Problem } from './attention.js' */
/** @import { Child } from './dom.js' */
/** @import { Report, Selection } from './targets.js' */

/** Notices that are shown at first. */
const NOTICES_SHOWN = 8;

/**
 * Shows the matters that need attention; hidden if there are none.
 * @param {readonly Problem[]} problems
 * @param {(selection: Partial<Selection>) => void} onSelect
 */
export function showProblems(problems, onSelect) {
  byId('attention').hidden = problems.length === 0;
  setText(byId('attention-title'), `Needs attention (${problems.length})`);
  refill(byId('problems'), problems, () => problems.map((problem) => problemNode(problem, onSelect)));
}

/** @param {Problem} problem @param {(selection: Partial<Selection>) => void} onSelect @returns {HTMLElement} */
function problemNode({ tone, title, text, nextAtMs, hint, command, selection }, onSelect) {
  const show = {
    class: 'quiet show',
    'data-key': `show ${title}`,
    'aria-label': `Show in the table: ${title}`,
  };
  const again = nextAtMs ? [' It is tried again after ', timeNode(nextAtMs, 'clock'), '.'] : [];
  return element(
    'li',
    { class: `problem tone-${tone}` },
    sign(tone),
    element(
      'div',
      {},
      element('h3', {}, title),
      element('p', {}, text, ...again),
      hint ? element('p', { class: 'hint' }, hint) : null,
      command ? element('p', {}, 'To approve: ', element('code', {}, command)) : null,
    ),
    selection ? button(show, () => onSelect(selection), 'Show') : null,
  );
}

/** Shows what happened last. @param {Report} report @param {(selection: Partial<Selection>) => void} onSelect */
export function showChanged({ changes }, onSelect) {
  refill(byId('changed'), changes, () =>
    changes.length === 0
      ? [element('li', { class: 'dim' }, 'Nothing has been published yet.')]
      : changes.map(({ target, atMs, kind, files, first: [file] }) => {
          const attributes = { class: 'link', 'data-key': `changed ${target} ${atMs}`, title: target };
          const more = files > 1 && file ? ` and ${files - 1} more` : '';
          const by = file?.author ? `, ${file.author}` : '';
          const what = file
            ? `${file.change} ${file.path}${more}${by}`
            : `${kind}, ${counted(files, 'file')}`;
          const name = button(attributes, () => onSelect({ search: target }), element('bdi', {}, target));
          const text = element('div', { class: 'message', title: file?.message ?? what }, what);
          const time = element('span', { class: 'dim' }, timeNode(atMs));
          return element('li', {}, element('div', {}, name, text), time);
        }),
  );
}

/** Shows the facts about the service, the credentials, the settings and the directory. @param {Report} report */
export function showFacts({ live, disk, publishesWhole, leases, shard }) {
  const { upstream, credentials, settings } = live;
  const isRefused = settings.problem !== null;
  const needsRestart = settings.restartNeeded.length > 0;
  const word = isRefused ? 'new ones refused' : needsRestart ? 'some need a restart' : 'in force';
  refill(byId('facts'), [upstream, credentials, settings, disk, publishesWhole, leases, shard], () => [
    ...(upstream === null ? fact('Service', 'it has not answered this daemon yet') : upstreamFacts(upstream)),
    ...fact(CREDENTIAL_NAMES.apiKey, ...credential(credentials.apiKey)),
    ...fact(CREDENTIAL_NAMES.apiToken, ...credential(credentials.apiToken)),
    ...fact(
      'Settings',
      badge(isRefused || needsRestart ? 'warn' : 'ok', word),
      ' ',
      timeNode(settings.takenAtMs),
    ),
    ...(disk === null
      ? []
      : fact(
          'Disk',
          `${sizeText(disk.freeBytes)} free of ${sizeText(disk.sizeBytes)}, ${usedPercent(disk)} % used`,
        )),
    ...(shard === null ? [] : fact('Shard', `${shard.index} of ${shard.count}: this page shows it alone`)),
    ...(publishesWhole
      ? []
      : fact(
          'Publishing',
          'file by file: readers may see a tree between two states. publish: link prevents that',
        )),
    ...leases.flatMap(({ id, holder, takenAtMs, untilMs }) =>
      fact(
        'Lease',
        badge('held', 'publishing waits'),
        ` for ${holder}, taken `,
        timeNode(takenAtMs),
        ', ends ',
        timeNode(untilMs),
        ' at the latest: ',
        element('code', {}, id),
      ),
    ),
  ]);
}

/** @param {NonNullable<Report['live']['upstream']>} upstream @returns {Child[]} */
function upstreamFacts({ repositories, workbooks, processing, failed, readAtMs }) {
  const listed = workbooks === null ? 'no list of workbooks' : counted(workbooks, 'workbook');
  return [
    ...fact(
      'Service',
      `${counted(repositories, 'repository', 'repositories')}, ${listed}, read `,
      timeNode(readAtMs),
    ),
    ...(failed.count === 0 ? [] : fact('Failed to process', badge('bad', flagged(failed)))),
    ...(processing.count === 0 ? [] : fact('Still processing', badge('off', flagged(processing)))),
  ];
}

/** @param {NonNullable<Report['live']['upstream']>['failed']} workbooks @returns {string} */
function flagged({ count, first }) {
  const names = first.map(({ workbookId, branch, versionId }) => `${workbookId} on ${branch} (${versionId})`);
  return `${counted(count, 'workbook')}: ${names.join(', ')}${count > first.length ? ', …' : ''}`;
}

/** @param {Report['live']['credentials']['apiKey']} credential @returns {Child[]} */
function credential({ state, key, sinceMs, nextAttemptAtMs }) {
  if (state === 'unknown') return [badge('off', 'not used yet, or not set')];
  const which = key !== null && key > 1 ? ` (key ${key})` : '';
  return [
    badge(state === 'refused' ? 'bad' : 'ok', `${state}${which}`),
    ' ',
    timeNode(sinceMs),
    ...(nextAttemptAtMs === null ? [] : [', tried again after ', timeNode(nextAttemptAtMs, 'clock')]),
  ];
}

/** @param {NonNullable<Report['disk']>} disk @returns {number} */
function usedPercent({ sizeBytes, freeBytes }) {
  return sizeBytes === 0 ? 0 : Math.ceil((100 * (sizeBytes - freeBytes)) / sizeBytes);
}

/** Shows the latest warnings and errors, the latest first. @param {Report} report @param {boolean} isWhole whether to show all */
export function showNotices({ notices }, isWhole) {
  const shown = notices.toReversed().slice(0, isWhole ? notices.length : NOTICES_SHOWN);
  const more = byId('notices-more');
  more.hidden = notices.length <= NOTICES_SHOWN;
  more.setAttribute('aria-expanded', String(isWhole));
  setText(more, isWhole ? 'Show fewer' : `Show all ${notices.length}`);
  refill(byId('notices'), shown, () =>
    shown.length === 0
      ? [element('li', { class: 'dim' }, 'None since the daemon started.')]
      : shown.map(({ atMs, level, event, message }) =>
          element(
            'li',
            {},
            element('span', { class: 'dim' }, timeNode(atMs)),
            level === 'error' ? badge('bad', 'error') : badge('warn', 'warning'),
            element(
              'div',
              {},
              element('p', { class: 'message' }, message),
              element('code', { class: 'dim' }, event),
            ),
          ),
        ),
  );
}
