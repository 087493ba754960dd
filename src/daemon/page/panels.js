/** The list of matters that need attention, and the panels below the table. */

import { button, byId, drawing, element, setText } from '../../lib/page/dom.js';
import { sizeText } from '../../lib/page/text.js';
import { CREDENTIAL_NAMES } from './attention.js';
import { commandNode } from './copy.js';
import { fact } from './details.js';
import { refill } from './refill.js';
import { timeNode } from './times.js';
import { counted, numberText } from './format.js';
import { badge, sign } from './signs.js';

/** @import { Problem } from './attention.js' */
/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Report, Tone } from './targets.js' */

/**
 * Shows what wants attention; nothing at all when there is nothing.
 * @param {readonly Problem[]} problems
 * @param {{ onSelect: (selection: NonNullable<Problem['selection']>) => void, announce: (text: string) => void }} options
 */
export function showProblems(problems, options) {
  byId('attention').hidden = problems.length === 0;
  setText(byId('attention-title'), `Needs attention (${problems.length})`);
  refill(byId('problems'), problems, () => problems.map((problem) => problemNode(problem, options)));
}

/** @param {Problem} problem @param {Parameters<typeof showProblems>[1]} options @returns {HTMLElement} */
function problemNode(
  { key, tone, title, text, nextAtMs = null, hint = null, command = null, selection = null },
  { onSelect, announce },
) {
  const attributes = {
    class: 'quiet show',
    'data-key': `show ${key}`,
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
      element('p', {}, text, ...(nextAtMs === null ? [] : [' It is tried again ', timeNode(nextAtMs), '.'])),
      hint === null ? null : element('p', { class: 'hint' }, hint),
      command === null
        ? null
        : element('div', { class: 'release' }, 'If it is to go:', commandNode(command, { key, announce })),
    ),
    selection === null ? null : button(attributes, () => onSelect(selection), 'Show'),
  );
}

/** Shows what the service said last. @param {Report} report */
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
  return [
    element('h3', {}, badge(tone, `${title}: ${counted(count, 'workbook')}`)),
    element(
      'ul',
      { class: 'flagged' },
      ...first.map(({ workbookId, branch, versionId }) =>
        element(
          'li',
          {},
          element('bdi', {}, workbookId),
          element('span', { class: 'dim' }, ' on ', element('bdi', {}, branch), ', version '),
          element('code', {}, versionId),
        ),
      ),
      rest > 0 ? element('li', { class: 'dim' }, `and ${numberText(rest)} more`) : null,
    ),
  ];
}

/** Shows the credentials, and whether the settings are in force. @param {Report} report */
export function showAccess({ live }) {
  const { credentials, settings } = live;
  refill(byId('access'), { credentials, settings }, () => [
    element(
      'dl',
      { class: 'facts' },
      ...fact(CREDENTIAL_NAMES.apiKey, ...credential(credentials.apiKey)),
      ...fact(CREDENTIAL_NAMES.apiToken, ...credential(credentials.apiToken)),
      ...fact('Settings', ...settingsState(settings)),
    ),
    settings.problem === null
      ? null
      : element(
          'div',
          { class: 'trouble tone-warn' },
          element('h4', {}, settings.problem.code),
          element('p', { class: 'message' }, settings.problem.message),
          settings.problem.hint === null ? null : element('p', { class: 'hint' }, settings.problem.hint),
        ),
    ...(settings.restartNeeded.length === 0
      ? []
      : [
          element('h3', {}, 'In force after a restart'),
          element(
            'ul',
            { class: 'names' },
            ...settings.restartNeeded.map((name) => element('li', {}, element('code', {}, name))),
          ),
        ]),
  ]);
}

/** @param {Report['live']['credentials']['apiKey']} credential @returns {Child[]} */
function credential({ state, key, sinceMs, nextAttemptAtMs }) {
  if (state === 'unknown') return [badge('off', 'not asked yet, or not given')];
  const which = key !== null && key > 1 ? ` (key ${key})` : '';
  const isRefused = state === 'refused';
  return [
    badge(isRefused ? 'bad' : 'ok', `${state}${which}`),
    ...(sinceMs === null ? [] : [' ', timeNode(sinceMs)]),
    ...(nextAttemptAtMs === null
      ? []
      : [sinceMs === null ? ' tried again ' : ', tried again ', timeNode(nextAttemptAtMs)]),
  ];
}

/** @param {Report['live']['settings']} settings @returns {Child[]} */
function settingsState({ problem, takenAtMs, restartNeeded }) {
  const word =
    problem !== null ? 'new ones refused' : restartNeeded.length > 0 ? 'some need a restart' : 'in force';
  const tone = problem !== null || restartNeeded.length > 0 ? 'warn' : 'ok';
  return [badge(tone, word), ' taken over ', timeNode(takenAtMs)];
}

/** Shows the room on the disk, how publishing goes there, and the leases. @param {Report} report */
export function showDirectory({ disk, publishesWhole, leases, shard }) {
  refill(byId('directory'), { disk, publishesWhole, leases, shard }, () => [
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
    leases.length === 0
      ? element('p', { class: 'dim' }, 'Nothing keeps publishing waiting.')
      : element('ul', { class: 'leases' }, ...leases.map(leaseNode)),
  ]);
}

/** @param {Report['leases'][number]} lease @returns {HTMLElement} */
function leaseNode({ id, holder, takenAtMs, untilMs }) {
  return element(
    'li',
    {},
    element('bdi', {}, holder),
    element(
      'span',
      { class: 'dim' },
      ' taken ',
      timeNode(takenAtMs),
      ', ends ',
      timeNode(untilMs),
      ' at the latest, ',
    ),
    element('code', {}, id),
  );
}

/** @param {NonNullable<Report['disk']>} disk @returns {Child[]} */
function diskNodes({ sizeBytes, freeBytes }) {
  const usedShare = sizeBytes === 0 ? 0 : (100 * (sizeBytes - freeBytes)) / sizeBytes;
  const tone = usedShare > 95 ? 'bad' : usedShare > 85 ? 'warn' : 'ok';
  return [
    element(
      'p',
      {},
      element('strong', {}, sizeText(freeBytes)),
      ` free of ${sizeText(sizeBytes)}, ${Math.ceil(usedShare)} % used`,
    ),
    drawing(
      'svg',
      { class: 'meter', viewBox: '0 0 100 1', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      drawing('rect', { width: 100, height: 1, class: 'fill-none' }),
      drawing('rect', { width: usedShare, height: 1, class: `fill tone-${tone}` }),
    ),
  ];
}
