import { state } from './addresses.ts';
import {
  choice,
  duration,
  flag,
  integer,
  list,
  type Need,
  path,
  schedule,
  type Setting,
  setting,
  size,
  timezone,
} from './kinds.ts';
import { deletionLimit, retention, shard } from './plan-settings.ts';
import { hooksSettings, httpSettings, serveSettings, serviceSettings } from './schema-network.ts';
import type { Secret } from './secret.ts';

/** Longer than a timer may wait: these are compared with a clock. */
const YEAR = '366d';

/** The sections of settings, in their order. */
export const sections = {
  service: 'The service that is mirrored.',
  guard: 'How much may be deleted without approval: a share, a number, or off. More is held until `approve`.',
  history: 'How much history/ keeps: an age, a number of the latest states of each target, forever, or off.',
  archive: 'Limits of an archive. A larger one is refused, and the published tree stays.',
  repositories:
    'Which repositories are mirrored. Patterns: * is any text within one part of a name, ** any number of parts, {a,b} either.',
  branches: 'Selection of branches. Patterns as for repositories.',
  log: 'Logging.',
  http: 'Status page, health and metrics of the daemon.',
  hooks: 'Commands to run and addresses to notify.',
  serve: 'The embedded service, for `serve` and `demo`.',
};

/** The one source of all settings, by their dotted names: types, defaults, descriptions, and which are secret. */
export const settingsSchema = {
  ...serviceSettings,
  directory: setting(path, {
    description: 'folder of the mirror, its manifests, its history and its state',
    need: 'directory',
    needsRestart: true,
  }),
  standby: setting(flag, {
    default: false,
    description:
      '`run` waits until another instance on the directory has ended, and takes over, instead of exiting with 4',
    needsRestart: true,
  }),
  shard: setting(shard, {
    description:
      'share of this instance if several mirror one service: `2/5` is the second of five; `auto/5` is for a StatefulSet or an Indexed Job',
    defaultText: 'all repositories',
    needsRestart: true,
  }),
  schedule: setting(schedule, {
    default: '*/5 * * * *',
    description: 'when passes start: cron expression, 5 or 6 fields (the sixth, in front, is seconds)',
  }),
  timezone: setting(timezone, { description: 'time zone of the schedule', default: 'UTC' }),
  state: setting(state, {
    default: 'sqlite',
    description:
      'the state cache: the embedded store `sqlite`, or a `redis://`, `valkey://` or `postgres://` address (with TLS' +
      ' `rediss://`, `valkeys://`)',
    needsRestart: true,
  }),
  concurrency: setting(integer(1, 64), { description: 'most pulls at a time', default: 4 }),
  content: setting(choice(['auto', 'workbooks', 'all']), {
    default: 'auto',
    description:
      'what is downloaded for new versions: `workbooks` only those, `all` the whole contents; `auto` is `workbooks` for drag-and-drop repositories without other files, otherwise `all`',
  }),
  publish: setting(choice(['auto', 'exchange', 'rename', 'link']), {
    default: 'auto',
    description:
      'how a change becomes visible: `exchange` swaps in a new tree; `link` repoints a symlink, if folders cannot be swapped; `rename` goes file by file with a journal; `auto` is exchange or rename',
    needsRestart: true,
  }),
  fullCheck: setting(duration('1m', YEAR), {
    default: '24h',
    description: 'how often the whole contents of every target are compared; spread over that time',
  }),
  maxStaleness: setting(duration('1s', YEAR), {
    description: 'a target that was verified longer ago is stale',
    defaultText: '3 schedule periods, at least 15m',
  }),
  readerGrace: setting(duration(), {
    default: '2m',
    description: 'how long a replaced tree stays whole for readers that still use it',
    needsRestart: true,
  }),
  drift: setting(choice(['off', 'report', 'repair']), {
    default: 'report',
    description:
      'if someone changes a published tree: `report` it within seconds, `repair` it as well, or `off`: wait for the full check',
    needsRestart: true,
  }),
  'guard.targets': setting(deletionLimit, {
    default: '20%',
    description: 'most targets that one pass may retire: a percentage or a number',
  }),
  'guard.files': setting(deletionLimit, {
    default: '50%',
    description:
      'most files of a target that one publish may delete: a percentage or a number; targets of up to 5 files are not guarded',
  }),
  'history.retired': setting(retention, {
    default: '30d',
    description: 'how long deleted trees are kept',
    needsRestart: true,
  }),
  'history.replaced': setting(retention, {
    default: '7d',
    description: 'how long, or how many, replaced states are kept',
    needsRestart: true,
  }),
  'archive.maxSize': setting(size, {
    default: '64 GiB',
    description: 'largest archive to download',
  }),
  'archive.maxUnpackedSize': setting(size, {
    default: '256 GiB',
    description: 'largest total size of the files of an archive',
  }),
  'archive.maxEntries': setting(integer(1, 100_000_000), {
    default: 1_000_000,
    description: 'most entries of an archive',
  }),
  'archive.nameTwins': setting(choice(['refuse', 'accept']), {
    default: 'refuse',
    description:
      'names in one folder that differ only in case or Unicode form: `refuse` the archive, or `accept` them if the file system can store both',
  }),
  'repositories.include': setting(list(1), {
    description: 'patterns of repositories to mirror',
    default: ['**'],
  }),
  'repositories.exclude': setting(list(0), {
    description: 'patterns of repositories to leave out',
    default: [],
  }),
  'branches.include': setting(list(1), { description: 'patterns of branches to mirror', default: ['**'] }),
  'branches.exclude': setting(list(0), { description: 'patterns of branches to leave out', default: [] }),
  targets: setting(list(0, targetProblem), {
    default: [],
    description:
      'targets to mirror even if no list names their branch: `Accounting/main` (a percent-encoded branch), or `**/main` for all repositories',
  }),
  'log.level': setting(choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal']), {
    default: 'info',
    description: 'least severe lines to log',
  }),
  'log.format': setting(choice(['auto', 'json', 'pretty']), {
    default: 'auto',
    description: '`json`, `pretty` for people, or `auto`: `pretty` on a terminal',
    needsRestart: true,
  }),
  ...httpSettings,
  ...hooksSettings,
  ...serveSettings,
};

type Name = keyof typeof settingsSchema;

type ValueOf<N extends Name> = (typeof settingsSchema)[N] extends Setting<infer Value> ? Value : never;

/** The name of a setting without the prefix; never for settings that are not directly below it. */
type Key<N extends Name, Prefix extends string> = N extends `${Prefix}${infer Rest}`
  ? Rest extends `${string}.${string}`
    ? never
    : Rest
  : never;

/** The values of the settings below a prefix; those without a default are optional. */
type ValuesBelow<Prefix extends string> = {
  [N in Name as undefined extends ValueOf<N> ? never : Key<N, Prefix>]: ValueOf<N>;
} & { [N in Name as undefined extends ValueOf<N> ? Key<N, Prefix> : never]?: ValueOf<N> };

/** All settings, validated. Durations are milliseconds; paths are absolute; the base address has no trailing slash. */
export type Settings = ValuesBelow<''> & { [S in keyof typeof sections]: ValuesBelow<`${S}.`> };

/** The parts in a literal list of needs; none for a list that is only known when the program runs. */
export type NeedsOf<T extends readonly Need[]> = number extends T['length'] ? never : T[number];

/** {@link Settings} with the parts that some commands require. */
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
