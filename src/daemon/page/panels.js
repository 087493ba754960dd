/** The list of matters that need attention, and the panels around the table. */

import { button, byId, drawing, element, setText } from '../../lib/page/dom.js';
import { sizeText } from '../../lib/page/text.js';
import { CREDENTIAL_NAMES } from './attention.js';
import { counted, numberText } from './format.js';
import { badge, fact, refill, sign, timeNode } from './nodes.js';

/** @import { Problem } from './attention.js' */
/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Report, Selection, Tone } from './targets.js' */

/** Targets that changed last, and notices, that are shown at first. */
const CHANGED_SHOWN = 6;
const NOTICES_SHOWN = 8;

/**
 * Shows the matters that want attention; nothing at all when there is nothing.
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
  return element(
    'li',
    { class: `problem tone-${tone}` },
    sign(tone),
    element(
      'div',
      {},
      element('h3', {}, title),
      element('p', {}, text, ...(nextAtMs ? [' It is tried again ', timeNode(nextAtMs), '.'] : [])),
      hint ? element('p', { class: 'hint' }, hint) : null,
      command ? element('p', {}, 'If it is to go: ', element('code', {}, command)) : null,
    ),
    selection ? button(show, () => onSelect(selection), 'Show') : null,
  );
}

/**
 * Shows the targets that changed last.
 * @param {Report} report
 * @param {(selection: Partial<Selection>) => void} onSelect
 */
export function showChanged({ targets }, onSelect) {
  const changed = targets
    .flatMap(({ target, changedAtMs }) => (changedAtMs === null ? [] : [{ target, changedAtMs }]))
    .sort((a, b) => b.changedAtMs - a.changedAtMs)
    .slice(0, CHANGED_SHOWN);
  refill(byId('changed'), changed, () =>
    changed.length === 0
      ? [element('li', { class: 'dim' }, 'Nothing was published yet.')]
      : changed.map(({ target, changedAtMs }) => {
          const attributes = { class: 'link', 'data-key': `changed ${target}`, title: target };
          const name = button(attributes, () => onSelect({ search: target }), element('bdi', {}, target));
          return element('li', {}, name, element('span', { class: 'dim' }, timeNode(changedAtMs)));
        }),
  );
}

/** Shows the last answer of the service. @param {Report} report */
export function showUpstream({ live }) {
  const { upstream } = live;
  refill(byId('upstream'), upstream, () => {
    if (upstream === null) return [element('p', { class: 'dim' }, 'It has not answered this daemon yet.')];
    const { repositories, workbooks, processing, failed, readAtMs } = upstream;
    return [
      element(
        'dl',
        { class: 'facts' },
        ...fact('Repositories', numberText(repositories)),
        ...fact('Workbooks', workbooks === null ? 'it has no list of them' : numberText(workbooks)),
        ...fact('Read', timeNode(readAtMs)),
      ),
      ...flagged('Failed to process', 'bad', failed),
      ...flagged('Still processing', 'off', processing),
    ];
  });
}

/** @param {string} title @param {Tone} tone @param {NonNullable<Report['live']['upstream']>['failed']} workbooks @returns {Child[]} */
function flagged(title, tone, { count, first }) {
  if (count === 0) return [];
  const rest = count - first.length;
  const names = first.map(({ workbookId, branch, versionId }) =>
    element(
      'li',
      {},
      element('bdi', {}, workbookId),
      ' on ',
      element('bdi', {}, branch),
      ', version ',
      element('code', {}, versionId),
    ),
  );
  return [
    element('h3', {}, badge(tone, `${title}: ${counted(count, 'workbook')}`)),
    element(
      'ul',
      { class: 'names' },
      ...names,
      rest > 0 ? element('li', {}, `and ${numberText(rest)} more`) : null,
    ),
  ];
}

/** Shows the credentials, and whether the settings are in force. @param {Report} report */
export function showAccess({ live }) {
  const { credentials, settings } = live;
  const { problem, takenAtMs, restartNeeded } = settings;
  const needsRestart = restartNeeded.length > 0;
  const word = problem !== null ? 'new ones refused' : needsRestart ? 'some need a restart' : 'in force';
  refill(byId('access'), [credentials, settings], () => [
    element(
      'dl',
      { class: 'facts' },
      ...fact(CREDENTIAL_NAMES.apiKey, ...credential(credentials.apiKey)),
      ...fact(CREDENTIAL_NAMES.apiToken, ...credential(credentials.apiToken)),
      ...fact(
        'Settings',
        badge(problem !== null || needsRestart ? 'warn' : 'ok', word),
        ' taken over ',
        timeNode(takenAtMs),
      ),
    ),
  ]);
}

/** @param {Report['live']['credentials']['apiKey']} credential @returns {Child[]} */
function credential({ state, key, sinceMs, nextAttemptAtMs }) {
  if (state === 'unknown') return [badge('off', 'not asked yet, or not given')];
  const which = key !== null && key > 1 ? ` (key ${key})` : '';
  return [
    badge(state === 'refused' ? 'bad' : 'ok', `${state}${which}`),
    ' ',
    sinceMs === null ? null : timeNode(sinceMs),
    ...(nextAttemptAtMs === null ? [] : [', tried again ', timeNode(nextAttemptAtMs)]),
  ];
}

/** Shows the room on the disk, how publishing goes there, and the leases. @param {Report} report */
export function showDirectory({ disk, publishesWhole, leases, shard }) {
  refill(byId('directory'), [disk, publishesWhole, leases, shard], () => [
    shard === null
      ? null
      : element(
          'p',
          {},
          `Share ${shard.index} of ${shard.count}: all of this page is about the repositories of this instance.`,
        ),
    ...(disk === null ? [] : diskNodes(disk)),
    publishesWhole
      ? null
      : element(
          'p',
          { class: 'dim' },
          'Publishing goes file by file, and readers may see a tree between two states for an instant. With publish: link they do not.',
        ),
    element(
      'h3',
      {},
      leases.length === 0
        ? 'No lease in force'
        : badge('held', `${counted(leases.length, 'lease')}: publishing waits`),
    ),
    element(
      'ul',
      { class: 'names' },
      ...leases.map(({ id, holder, takenAtMs, untilMs }) =>
        element(
          'li',
          {},
          element('bdi', {}, holder),
          ' taken ',
          timeNode(takenAtMs),
          ', ends ',
          timeNode(untilMs),
          ' at the latest, ',
          element('code', {}, id),
        ),
      ),
    ),
  ]);
}

/** @param {NonNullable<Report['disk']>} disk @returns {Child[]} */
function diskNodes({ sizeBytes, freeBytes }) {
  const usedShare = sizeBytes === 0 ? 0 : (100 * (sizeBytes - freeBytes)) / sizeBytes;
  const tone = usedShare > 95 ? 'bad' : usedShare > 85 ? 'warn' : 'ok';
  const used = ` free of ${sizeText(sizeBytes)}, ${Math.ceil(usedShare)} % used`;
  return [
    element('p', {}, element('strong', {}, sizeText(freeBytes)), used),
    drawing(
      'svg',
      { class: 'meter', viewBox: '0 0 100 1', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      drawing('rect', { width: usedShare, height: 1, class: `fill tone-${tone}` }),
    ),
  ];
}

/** Shows the latest warnings and errors, the latest first. @param {Report} report @param {boolean} isWhole whether all of them */
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
