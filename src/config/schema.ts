import { z } from 'zod';

import { choice, duration, flag, integer, list, path, schedule, shard, state, timezone } from './kinds.ts';
import { section, setting, type Need } from './metadata.ts';
import { hooksSection } from './schema-hooks.ts';
import { httpSection } from './schema-http.ts';
import { archiveSection, guardSection, historySection } from './schema-safety.ts';
import { serveSection, serviceSection } from './schema-service.ts';
import type { Secret } from './secret.ts';

/** Longer than a timer may wait: these are compared with a clock. */
const YEAR = '366d';

const PATTERNS = 'Patterns: * is any text within one part of a name, ** any number of parts, {a,b} either.';

/** The one source of all settings: names, types, defaults, descriptions, and which are secret. */
export const settingsSchema = z.strictObject({
  service: serviceSection,
  directory: setting(path().optional(), {
    description: 'the folder of the mirror, its manifests, its history and its state; on one file system',
    comment: 'A relative path in this file starts at the folder of this file.',
    example: '/var/lib/workbook-mirror',
    need: 'directory',
    needsRestart: true,
  }),
  standby: setting(flag().prefault(false), {
    description:
      '`run` waits until another instance on the directory has ended, and takes over, instead of exiting with 4',
    needsRestart: true,
  }),
  shard: setting(shard().optional(), {
    description:
      'share of this instance if several mirror one service: `2/5` is the second of five; `auto/5` takes the number from the host name of a StatefulSet or from `JOB_COMPLETION_INDEX`',
    defaultText: 'all repositories',
    example: '2/5',
    needsRestart: true,
  }),
  schedule: setting(schedule().prefault('*/5 * * * *'), {
    description: 'when passes start: cron expression, 5 or 6 fields (the sixth, in front, is seconds)',
    comment: 'In quotes: YAML takes a leading * for something else.',
  }),
  timezone: setting(timezone().prefault('UTC'), { description: 'time zone of the schedule' }),
  state: setting(state().prefault('sqlite'), {
    description:
      'the state cache: the embedded store `sqlite`, or a `redis://`, `valkey://` or `postgres://` address (with TLS' +
      ' `rediss://`, `valkeys://`)',
    comment:
      'Losing the cache costs requests, never data. A password in the address is masked in every output.',
    needsRestart: true,
  }),
  concurrency: setting(integer(1, 64).prefault(4), { description: 'pulls at once' }),
  content: setting(choice(['auto', 'workbooks', 'all']).prefault('auto'), {
    description:
      'what is downloaded if workbooks have new versions: `workbooks` only those, `all` the whole contents, `auto` the former for drag-and-drop repositories with workbooks only, the latter otherwise',
    comment: 'With workbooks, other files are only renewed by the full check.',
  }),
  publish: setting(choice(['auto', 'exchange', 'rename', 'link']).prefault('auto'), {
    description:
      'how a change becomes visible: `exchange` swaps in a new tree; `link` repoints a symlink, if folders cannot be swapped; `rename` goes file by file with a journal; `auto` is exchange or rename',
    needsRestart: true,
  }),
  fullCheck: setting(duration({ min: '1m', max: YEAR }).prefault('24h'), {
    description: 'how often the contents of every target are compared whole; spread over that time',
  }),
  maxStaleness: setting(duration({ min: '1s', max: YEAR }).optional(), {
    description: 'a target that was verified longer ago is stale',
    defaultText: '3 schedule periods, at least 15m',
    example: '15m',
  }),
  readerGrace: setting(duration().prefault('2m'), {
    description: 'how long a replaced tree stays whole for readers that still use it',
    needsRestart: true,
  }),
  drift: setting(choice(['off', 'report', 'repair']).prefault('report'), {
    description:
      'what `run` does if someone changes a published tree: `off` waits for the full check, `report` reports it within seconds, `repair` also pulls it again',
    needsRestart: true,
  }),
  guard: guardSection,
  history: historySection,
  archive: archiveSection,
  repositories: section(`Which repositories are mirrored. ${PATTERNS}`, {
    include: setting(list({ min: 1 }).prefault(['**']), { description: 'repositories to mirror, patterns' }),
    exclude: setting(list({ min: 0 }).prefault([]), { description: 'repositories to leave out, patterns' }),
  }),
  branches: section('Which branches are mirrored. Patterns as for repositories.', {
    include: setting(list({ min: 1 }).prefault(['**']), { description: 'branches to mirror, patterns' }),
    exclude: setting(list({ min: 0 }).prefault([]), { description: 'branches to leave out, patterns' }),
  }),
  targets: setting(list({ min: 0, check: targetProblem }).prefault([]), {
    description:
      'targets to mirror even if no list names their branch: `REPOSITORY/BRANCH` with a percent-encoded branch, such as `Accounting/main`; patterns are allowed in the repository part: `**/main`',
  }),
  log: section('Logging.', {
    level: setting(choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).prefault('info'), {
      description: 'least severe lines to log',
    }),
    format: setting(choice(['auto', 'json', 'pretty']).prefault('auto'), {
      description: '`json`, `pretty` for people, or `auto`: `pretty` on a terminal',
      needsRestart: true,
    }),
  }),
  http: httpSection,
  hooks: hooksSection,
  serve: serveSection,
});

/** All settings, validated. Durations are milliseconds; paths are absolute; the base address has no trailing slash. */
export type Settings = z.output<typeof settingsSchema>;

/** The parts that a literal list of needs names; none for a list that is only known when the program runs. */
export type NeedsOf<T extends readonly Need[]> = number extends T['length'] ? never : T[number];

/** {@link Settings} in which what some commands need is known to be there. */
export type SettingsFor<N extends Need> = Settings &
  ('service' extends N ? { service: { baseUrl: string; apiKey: Secret } } : unknown) &
  ('directory' extends N ? { directory: string } : unknown);

/** Why a text cannot name a target as `REPOSITORY/BRANCH`; undefined if it can. */
export function targetProblem(text: string): string | undefined {
  const slash = text.lastIndexOf('/');
  const repository = text.slice(0, Math.max(slash, 0));
  const branch = text.slice(slash + 1);
  if (repository === '' || branch === '') return 'expected REPOSITORY/BRANCH, such as Accounting/main';
  // A Git branch cannot have these in its name (git-check-ref-format), so they can only be meant as a pattern.
  if (/[*?[]/.test(branch)) return 'expected a pattern in the repository part only';
  if (!isPercentEncoded(branch))
    return 'expected a branch in which "%" is followed by two hexadecimal digits';
  return undefined;
}

function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
