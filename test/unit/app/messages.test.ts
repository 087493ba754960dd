import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { EVENTS, type EventFields, type EventName, type MirrorEvent } from '../../../src/app/events.ts';
import { ERASE_LINE } from '../../../src/lib/text/terminal-text.ts';
import { createEventLog } from '../../../src/daemon/log/logger.ts';
import { describeEvent } from '../../../src/app/messages.ts';
import { createProgress } from '../../../src/cli/change/progress.ts';
import { NOW_MS, passFinished, pulledEvent } from '../../support/builders.ts';
import { hostileText, UNFIT } from '../../support/hostile-text.ts';

const WRONG = { code: 'service.failed', message: 'It failed.', hint: 'Wait.' } as const;
const { name: _name, ...PULLED } = pulledEvent({
  target: 'Accounting/main',
  reason: 'versions-changed',
  method: 'exchange',
  downloadedBytes: 12_345,
  files: 3,
  added: 1,
  changed: 2,
  durationMs: 1400,
});
const FINISHED = passFinished({ durationMs: 1400, targets: 3 });
const WORKBOOK = { workbookId: 'Accounting/plan.xlsx', versionId: 'v1', branch: 'main' };

/** An event of every kind, and its sentence. */
const SENTENCES: { readonly [Name in EventName]: readonly [EventFields[Name], string] } = {
  'daemon.started': [
    {
      version: '1.0.0',
      directory: '/srv/m',
      service: 'https://s/api',
      schedule: '*/5 * * * *',
      timezone: 'UTC',
    },
    'workbook-mirror 1.0.0 mirrors https://s/api into /srv/m, on the schedule */5 * * * * (UTC)',
  ],
  'daemon.scheduled': [{ nextPassAtMs: NOW_MS }, 'next pass at 2025-06-02T10:00:00Z'],
  'daemon.stopping': [{ signal: 'SIGTERM' }, 'stopping on SIGTERM'],
  'daemon.stopped': [{ exitCode: 0 }, 'stopped'],
  'pass.started': [{ trigger: 'signal' }, 'pass started (signal)'],
  'pass.planned': [{ pull: 1, keep: 2, hold: 3, retire: 4 }, 'plan: pull 1, keep 2, hold 3, retire 4'],
  'pass.finished': [FINISHED, '3 targets looked at in 1.4 s; nothing to pull'],
  'pass.failed': [{ ...WRONG, trigger: 'start', durationMs: 1 }, 'pass failed: It failed. Wait.'],
  'pass.abandoned': [{ trigger: 'start', durationMs: 1 }, 'pass abandoned'],
  'listing.problem': [{ problem: '2 rows are malformed' }, '2 rows are malformed'],
  'selection.checked': [
    { repositories: 2, selected: 1, unmatched: [] },
    'the settings select 1 target of 2 repositories',
  ],
  'selection.unmatched': [
    { setting: 'repositories.include', pattern: 'accounting', nearest: 'Accounting' },
    'repositories.include: "accounting" matches nothing that the service lists; the nearest name is "Accounting"',
  ],
  'selection.empty': [
    { repositories: 2, unmatched: [{ setting: 'targets', pattern: 'A', nearest: null }] },
    'the settings select nothing of the 2 repositories that the service lists: the mirror is not ready. targets: "A" matches nothing that the service lists. Check repositories, branches and targets.',
  ],
  'target.started': [
    { target: 'Accounting/main', reason: 'full-check' },
    'Accounting/main: pulling (full-check)',
  ],
  'target.slow': [
    { target: 'Accounting/main', startedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5) },
    'Accounting/main: its pull takes long (since 2026-01-02T03:04:05Z); other targets do not wait for it',
  ],
  'target.slow_ended': [
    { target: 'Accounting/main', result: 'pulled', durationMs: 90_000 },
    'Accounting/main: the slow pull ended after 90 s (pulled)',
  ],
  'target.pulled': [
    PULLED,
    'Accounting/main: published 1 added, 2 changed, 3 files in all (versions-changed, 12.3 kB in 1.4 s)',
  ],
  'target.moved': [
    { from: 'Old/main', target: 'New/main' },
    'New/main: moved here from Old/main, as its repository was renamed',
  ],
  'target.retired': [
    { target: 'Accounting/main', reason: 'repository-gone' },
    'Accounting/main: gone from the service (repository-gone); its tree went to history/',
  ],
  'target.held': [
    { target: 'Accounting/main', reason: 'backing-off', untilMs: NOW_MS },
    'Accounting/main: waits to be tried again (until 2025-06-02T10:00:00Z)',
  ],
  'deletion.held': [
    { target: 'Accounting/main', subject: 'files', deletions: 8, of: 10, digest: 'd', first: ['a.xlsx'] },
    "Accounting/main: held, because the service's new state would delete 8 of its 10 files. Files that would go: a.xlsx. If it is to go: workbook-mirror approve 'Accounting/main'",
  ],
  'deletion.approved': [
    { target: 'Accounting/main', subject: 'files' },
    'Accounting/main: deleting its files, as approved',
  ],
  'target.missing': [
    { target: 'Accounting/main', passes: 2 },
    'Accounting/main: missing from 2 answers of the service in a row; kept for now',
  ],
  'target.absent': [
    { target: 'Accounting/main' },
    'Accounting/main: the service has no contents there (yet)',
  ],
  'target.failed': [
    { ...WRONG, hint: null, target: 'Accounting/main', attempts: 1, nextAttemptAtMs: NOW_MS },
    'Accounting/main: It failed.',
  ],
  'target.drifted': [
    { target: 'Accounting/main', added: 1, missing: 0, modified: 2, first: 'plan.xlsx' },
    'Accounting/main: someone changed the published tree: 2 modified, 1 added, the first is "plan.xlsx"',
  ],
  'target.whole': [
    { target: 'Accounting/main' },
    'Accounting/main: the published tree matches its manifest again',
  ],
  'target.lost': [
    { target: 'Accounting/main' },
    'Accounting/main: someone removed its tree and its manifest; it is pulled again if the service has it',
  ],
  'inventory.damaged': [
    { problem: 'it is not JSON' },
    'inventory.json cannot be used: it is not JSON; the pass writes it again, but cannot detect lost targets this time',
  ],
  'drift.unwatched': [
    WRONG,
    'some published trees cannot be watched; each pass checks them instead: It failed. Wait.',
  ],
  'target.skipped_entries': [
    { target: 'Accounting/main', count: 2, first: 'a "link"' },
    String.raw`Accounting/main: left out 2 entries (symbolic links, special files and submodules are not mirrored), the first is "a \"link\""`,
  ],
  'upstream.workbook_failed': [
    { ...WORKBOOK, count: 1 },
    'the service failed to process Accounting/plan.xlsx on main: 1 failure at version v1',
  ],
  'upstream.workbook_recovered': [
    WORKBOOK,
    'the service has processed Accounting/plan.xlsx on main at version v1',
  ],
  'history.pruned': [
    { entry: 'A/main/20260101T000000.000Z' },
    'history/A/main/20260101T000000.000Z: removed from the history',
  ],
  'publish.recovered': [
    { target: 'Accounting/main' },
    'Accounting/main: completed the publish that was interrupted',
  ],
  'publish.fallback': [
    { directory: '/srv/m', limit: 'cannot swap directories: readers may see a tree between two states' },
    'the file system of /srv/m cannot swap directories: readers may see a tree between two states',
  ],
  'publish.sweep_failed': [
    { code: 'disk.failed', message: 'It is busy.', hint: null },
    'replaced trees cannot be removed: It is busy.',
  ],
  'service.retry': [{ ...WRONG, delayMs: 2000, fromBytes: 0 }, 'trying again in 2.0 s: It failed.'],
  'listing.read': [
    {
      isWhole: true,
      repositories: 1,
      workbooks: 2,
      processing: { count: 0, first: [] },
      failed: { count: 0, first: [] },
    },
    'the service lists 1 repository and 2 workbooks',
  ],
  'credentials.refused': [
    { credential: 'apiKey', nextAttemptAtMs: NOW_MS },
    'the service refuses every key of service.apiKey; tried again after 2025-06-02T10:00:00Z, or as soon as a key file changes; after a new systemd credential, restart: systemctl restart workbook-mirror',
  ],
  'credentials.accepted': [
    { credential: 'apiToken', key: 2 },
    'the service accepts key 2 of service.apiToken, and refuses the earlier ones',
  ],
  'settings.reloaded': [
    { changed: ['schedule', 'log.level'] },
    'settings read again; changed: schedule, log.level',
  ],
  'settings.refused': [WRONG, 'the new settings are refused, the old ones stay: It failed. Wait.'],
  'settings.restart_needed': [
    { settings: ['directory'] },
    'these settings changed, and take effect after a restart: directory',
  ],
  'settings.restart_unneeded': [{ settings: [] }, 'no changed setting needs a restart any more'],
  'log.level_changed': [{ level: 'debug' }, 'the log level is debug now'],
  'http.listening': [
    { address: 'http://127.0.0.1:9480' },
    'status page, health and metrics at http://127.0.0.1:9480',
  ],
  'http.unavailable': [
    WRONG,
    'no status page, health or metrics for now; the port is tried again: It failed. Wait.',
  ],
  'http.failed': [{ ...WRONG, path: '/metrics' }, 'answering /metrics failed: It failed. Wait.'],
  'http.unprotected': [
    { address: 'http://0.0.0.0:9480/' },
    'anyone who reaches http://0.0.0.0:9480/ can read names, times and errors of targets: set http.token, or listen on loopback',
  ],
  'lease.waited': [
    { untilMs: NOW_MS, holder: 'restic' },
    'publishing waits for the lease of restic, at most until 2025-06-02T10:00:00Z',
  ],
  'hook.finished': [
    { hook: 'afterPublish', target: 'Accounting/main', durationMs: 1400 },
    'Accounting/main: the hook afterPublish is done, in 1.4 s',
  ],
  'hook.failed': [
    { ...WRONG, hook: 'afterPublish', target: 'Accounting/main' },
    'Accounting/main: the hook afterPublish failed: It failed. Wait.',
  ],
  'notification.failed': [
    { ...WRONG, to: 'webhook', attempts: 2 },
    'the webhook was not reached, attempt 2: It failed. Wait.',
  ],
  'locks.unshared': [
    { setting: 'standby', directory: '/srv/m', fileSystem: 'nfs with nolock' },
    'standby: /srv/m is on nfs with nolock, where other machines do not see the locks of this one: instances on two machines would write to it at once. Keep them on one machine, or use a file system that shares its locks.',
  ],
  'standby.began': [
    { code: 'directory.locked', message: 'Another one works there (pid 7).', hint: null },
    'standing by until the other instance ends: Another one works there (pid 7).',
  ],
  'standby.ended': [
    { waitedMs: 61_000, takeoverMs: 1400 },
    'the other instance ended: took over in 1.4 s, after standing by for 61 s',
  ],
  'loop.stuck': [{ silentMs: 1400 }, 'the current pass has made no progress for 1.4 s'],
  'state.reset': [{ reason: 'it was damaged' }, 'the state cache starts empty: it was damaged'],
  'log.failed': [WRONG, 'It failed. Wait.'],
  'log.resumed': [{ droppedLines: 3 }, 'the log is written again; 3 lines were dropped'],
  'state.recovered': [{}, 'the state store answers again'],
  'control.unavailable': [WRONG, 'commands cannot reach this daemon: It failed. Wait.'],
  'state.failed': [WRONG, 'It failed. Wait.'],
};

function sentence(event: MirrorEvent): string {
  return String(describeEvent(event));
}

describe('the sentence of an event', () => {
  it.each(Object.entries(SENTENCES))('%s', (name, [fields, text]) => {
    expect(sentence({ name, ...fields } as MirrorEvent)).toBe(text);
  });

  it('exists for every event', () => {
    expect(Object.keys(SENTENCES).sort()).toEqual(Object.keys(EVENTS).sort());
  });

  it.each<[string, MirrorEvent, string]>([
    [
      'a target that is gone and held',
      {
        name: 'deletion.held',
        target: 'A/main',
        subject: 'target',
        deletions: 1,
        of: 3,
        digest: null,
        first: [],
      },
      "A/main: held, because the service no longer has it: 1 of 3 targets gone at once. If it is to go: workbook-mirror approve 'A/main'",
    ],
    [
      'a pull that changed nothing',
      { name: 'target.pulled', ...PULLED, method: 'none' },
      'Accounting/main: no file changed (versions-changed, 12.3 kB in 1.4 s)',
    ],
    [
      'a pull that changed only the manifest',
      { name: 'target.pulled', ...PULLED, method: 'manifest' },
      'Accounting/main: no file changed (versions-changed, 12.3 kB in 1.4 s)',
    ],
    [
      'a tree without files',
      { name: 'target.pulled', ...PULLED, method: 'first', files: 0, added: 0, changed: 0 },
      'Accounting/main: published an empty tree, 0 files in all (versions-changed, 12.3 kB in 1.4 s)',
    ],
    [
      'removed files',
      { name: 'target.pulled', ...PULLED, files: 1, added: 0, changed: 0, removed: 5 },
      'Accounting/main: published 5 removed, 1 file in all (versions-changed, 12.3 kB in 1.4 s)',
    ],
    [
      'a pass with everything',
      {
        name: 'pass.finished',
        ...FINISHED,
        targets: 1,
        pulled: 2,
        tried: 5,
        failed: 3,
        held: 4,
        leased: 1,
        missing: 6,
        downloadedBytes: 5000,
        changedFiles: 1,
        pulling: 0,
        waiting: 0,
        processing: 1,
      },
      '1 target looked at in 1.4 s; 2 pulled (5.0 kB), 1 file changed; 3 of 5 pulls failed; 3 held; 1 waiting for a lease; 6 missing from the list, kept for now; 1 workbook still being processed by the service',
    ],
    [
      'a pass that left pulls behind',
      { name: 'pass.finished', ...FINISHED, pulling: 1, waiting: 2 },
      '3 targets looked at in 1.4 s; nothing to pull; 1 slow pull still going on; 2 pulls waiting',
    ],
    [
      'a hold without an end',
      { name: 'target.held', target: 'Accounting/main', reason: 'superseded', untilMs: null },
      'Accounting/main: waits for a named branch to take its place',
    ],
    [
      'one entry',
      { name: 'target.skipped_entries', target: 'Accounting/main', count: 1, first: 'a' },
      'Accounting/main: left out 1 entry (symbolic links, special files and submodules are not mirrored), the first is "a"',
    ],
  ])('of %s', (_what, event, text) => {
    expect(sentence(event)).toBe(text);
  });

  it.each([
    ['It failed', 'Wait.', 'It failed. Wait.'],
    ['Did it fail?', 'Wait.', 'Did it fail? Wait.'],
    ['Two problems:\n  one\n  two', 'See\n`help`.', 'Two problems: one two. See `help`.'],
    ['It failed', null, 'It failed'],
  ])('has message and hint as sentences of one line: %j, %j', (message, hint, text) => {
    expect(sentence({ name: 'state.failed', code: 'state.unavailable', message, hint })).toBe(text);
  });

  it('shows what the service sends without its control characters', () => {
    const message = 'bad\r\n\u001b[2J\u202e name';
    const text = sentence({ name: 'service.retry', ...WRONG, message, delayMs: 0, fromBytes: 0 });
    expect(text).toBe(String.raw`trying again in 0 ms: bad\u000d\u000a\u001b[2J\u202e name`);
  });

  it('exists for a time beyond the range of dates', () => {
    expect(() =>
      sentence({ name: 'target.held', target: 'Accounting/main', reason: 'backing-off', untilMs: 1e16 }),
    ).not.toThrow();
  });
});

/** Fields whose texts are this program's own. */
const OWN: ReadonlySet<string> = new Set([
  'name',
  'subject',
  'method',
  'trigger',
  'credential',
  'place',
  'code',
]);

/** A value in which every text of foreign origin is replaced. */
function withText(value: unknown, text: string): unknown {
  if (typeof value === 'string') return text;
  if (Array.isArray(value)) return value.map((each) => withText(each, text));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]: [string, unknown]): [string, unknown] => [
      name,
      OWN.has(name) ? field : withText(field, text),
    ]),
  );
}

/** The control sequences of the log's colours. */
const COLORS = [31, 32, 33, 34, 36, 39].map((code) => `\u001b[${code}m`);

describe('text of others in events', () => {
  const events = fc
    .tuple(fc.constantFrom(...Object.entries(SENTENCES)), hostileText)
    .map(([[name, [fields]], text]) => Object.assign({ name }, withText(fields, text)) as MirrorEvent);

  it('is one line of text in the log, as JSON and for people', () => {
    fc.assert(
      fc.property(events, fc.constantFrom('json', 'pretty'), fc.boolean(), (event, format, colors) => {
        const written: string[] = [];
        const write = (line: unknown): number => written.push(String(line));
        createEventLog({ level: 'debug', format, colors, secrets: () => [], write }).sink(event);
        const text = COLORS.reduce((rest, color) => rest.replaceAll(color, ''), written.join(''));
        expect(text).toMatch(/^[^\n]+\n$/);
        expect(text.slice(0, -1)).not.toMatch(UNFIT);
        if (format !== 'json') return;
        const { name, ...fields } = event;
        expect(JSON.parse(text)).toMatchObject({ event: name, ...fields });
      }),
    );
  });

  it('is text in the display of a pass', () => {
    fc.assert(
      fc.property(fc.array(events, { minLength: 1 }), fc.boolean(), (several, isTerminal) => {
        const written: string[] = [];
        const show = createProgress({
          write: (text) => written.push(String(text)),
          isTerminal,
          columns: () => 60,
          loudness: 'verbose',
          secrets: () => [],
          monitor: { pulls: () => [], scan: () => null },
          now: () => 0,
        });
        for (const event of several) show.sink(event);
        show.close();
        for (const text of written)
          expect(text.replace(String(ERASE_LINE), '').replace(/\n$/, '')).not.toMatch(UNFIT);
      }),
    );
  });
});
