import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { EventFields, EventName, MirrorEvent } from '../../../src/app/events.ts';
import { ERASE_LINE } from '../../../src/lib/text/terminal-text.ts';
import { createEventLog } from '../../../src/daemon/log/logger.ts';
import { describeEvent } from '../../../src/app/messages.ts';
import { createProgress } from '../../../src/cli/change/progress.ts';
import { PullMonitor } from '../../../src/mirror/pass/events.ts';
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
const COUNTS = {
  targets: 1,
  pulled: 2,
  tried: 5,
  failed: 3,
  held: 6,
  leased: 1,
  notYetRetried: 2,
  missing: 6,
};
const EVERYTHING = { ...COUNTS, downloadedBytes: 5000, changedFiles: 1, processing: 1 };
const WORKBOOK = { workbookId: 'Accounting/plan.xlsx', versionId: 'v1', branch: 'main' };
const NONE = { count: 0, first: [] };
const TARGET = { target: 'Accounting/main' };
const HELD = { ...TARGET, subject: 'files', deletions: 8, of: 10, digest: 'd', first: ['a.xlsx'] } as const;

/** An event of every kind. */
const EXAMPLES: { readonly [Name in EventName]: EventFields[Name] } = {
  'daemon.started': {
    version: '1.0.0',
    directory: '/srv/m',
    service: 'https://s/api',
    schedule: '*/5 * * * *',
    timezone: 'UTC',
  },
  'daemon.scheduled': { nextPassAtMs: NOW_MS },
  'daemon.stopping': { signal: 'SIGTERM' },
  'daemon.stopped': { exitCode: 0 },
  'pass.started': { trigger: 'signal' },
  'pass.planned': { pull: 1, keep: 2, hold: 3, retire: 4 },
  'pass.finished': FINISHED,
  'pass.failed': { ...WRONG, trigger: 'start', durationMs: 1 },
  'pass.abandoned': { trigger: 'start', durationMs: 1 },
  'listing.problem': { problem: '2 rows are malformed' },
  'selection.checked': { repositories: 2, selected: 1, unmatched: [] },
  'selection.unmatched': { setting: 'repositories.include', pattern: 'accounting', nearest: 'Accounting' },
  'selection.empty': { repositories: 2, unmatched: [{ setting: 'targets', pattern: 'A', nearest: null }] },
  'target.started': { target: 'Accounting/main', reason: 'full-check' },
  'target.slow': { target: 'Accounting/main', startedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5) },
  'target.slow_ended': { target: 'Accounting/main', result: 'pulled', durationMs: 90_000 },
  'target.pulled': PULLED,
  'target.moved': { from: 'Old/main', target: 'New/main' },
  'target.retired': { target: 'Accounting/main', reason: 'repository-gone' },
  'target.held': { target: 'Accounting/main', reason: 'backing-off', untilMs: NOW_MS },
  'deletion.held': HELD,
  'deletion.approved': { target: 'Accounting/main', subject: 'files' },
  'target.missing': { target: 'Accounting/main', passes: 2 },
  'target.absent': { target: 'Accounting/main' },
  'target.failed': { ...WRONG, hint: null, target: 'Accounting/main', attempts: 1, nextAttemptAtMs: NOW_MS },
  'target.drifted': { target: 'Accounting/main', added: 1, missing: 0, modified: 2, first: 'plan.xlsx' },
  'target.whole': { target: 'Accounting/main' },
  'target.lost': { target: 'Accounting/main' },
  'inventory.damaged': { problem: 'it is not JSON' },
  'drift.unwatched': WRONG,
  'target.skipped_entries': { target: 'Accounting/main', count: 2, first: 'a "link"' },
  'upstream.workbook_failed': { ...WORKBOOK, count: 1 },
  'upstream.workbook_recovered': WORKBOOK,
  'history.pruned': { entry: 'A/main/20260101T000000.000Z' },
  'publish.recovered': { target: 'Accounting/main' },
  'publish.fallback': { directory: '/srv/m', limit: 'cannot swap directories: readers may see both' },
  'publish.sweep_failed': { code: 'disk.failed', message: 'It is busy.', hint: null },
  'service.retry': { ...WRONG, delayMs: 2000, fromBytes: 0 },
  'listing.read': { isWhole: true, repositories: 1, workbooks: 2, processing: NONE, failed: NONE },
  'credentials.refused': { credential: 'apiKey', nextAttemptAtMs: NOW_MS },
  'credentials.accepted': { credential: 'apiToken', key: 2 },
  'settings.reloaded': { changed: ['schedule', 'log.level'] },
  'settings.refused': WRONG,
  'settings.restart_needed': { settings: ['directory'] },
  'settings.restart_unneeded': { settings: [] },
  'log.level_changed': { level: 'debug' },
  'http.listening': { address: 'http://127.0.0.1:9480' },
  'http.unavailable': WRONG,
  'http.failed': { ...WRONG, path: '/metrics' },
  'http.unprotected': { address: 'http://0.0.0.0:9480/' },
  'lease.waited': { untilMs: NOW_MS, holder: 'restic' },
  'hook.finished': { hook: 'afterPublish', target: 'Accounting/main', durationMs: 1400 },
  'hook.failed': { ...WRONG, hook: 'afterPublish', target: 'Accounting/main' },
  'notification.failed': { ...WRONG, to: 'webhook', attempts: 2 },
  'locks.unshared': { setting: 'standby', directory: '/srv/m', fileSystem: 'nfs with nolock' },
  'standby.began': { code: 'directory.locked', message: 'Another one works there (pid 7).', hint: null },
  'standby.ended': { waitedMs: 61_000, takeoverMs: 1400 },
  'loop.stuck': { silentMs: 1400 },
  'state.reset': { reason: 'it was damaged' },
  'log.failed': WRONG,
  'log.resumed': { droppedLines: 3 },
  'state.recovered': {},
  'control.unavailable': WRONG,
  'state.failed': WRONG,
};

/** The facts of a pull in its sentence. */
const TOOK = '(versions-changed, 12.3 kB in 1.4 s)';

const pulled = (fields: Partial<typeof PULLED>): MirrorEvent => ({
  name: 'target.pulled',
  ...PULLED,
  ...fields,
});

function sentence(event: MirrorEvent): string {
  return String(describeEvent(event));
}

describe('the sentence of an event', () => {
  it.each(Object.entries(EXAMPLES))('%s is one line without a gap', (name, fields) => {
    expect(sentence({ name, ...fields } as MirrorEvent)).not.toMatch(/undefined|null|NaN|\[object|  |\n|^$/);
  });

  it.each<[EventName, string]>([
    [
      'selection.empty',
      'the settings select nothing of the 2 repositories that the service lists: the mirror is not ready. targets: "A" matches nothing that the service lists. Check repositories, branches and targets.',
    ],
    ['target.pulled', `Accounting/main: published 3 files: 1 added, 2 changed ${TOOK}`],
    [
      'deletion.held',
      "Accounting/main: held, because the service's new state would delete 8 of its 10 files. Files that would go: a.xlsx. To approve: workbook-mirror approve 'Accounting/main'",
    ],
    ['target.failed', 'Accounting/main: It failed.'],
    [
      'target.skipped_entries',
      String.raw`Accounting/main: left out 2 entries (symbolic links and special files are not mirrored), the first is "a \"link\""`,
    ],
    ['listing.read', 'the service lists 1 repository and 2 workbooks'],
    ['credentials.accepted', 'the service accepts key 2 of service.apiToken, and refuses the earlier ones'],
  ])('%s', (name, text) => {
    expect(sentence({ name, ...EXAMPLES[name] } as MirrorEvent)).toBe(text);
  });

  it.each<[string, MirrorEvent, string]>([
    [
      'a target that is gone and held',
      { name: 'deletion.held', ...HELD, subject: 'target', deletions: 1, of: 3, first: [] },
      "Accounting/main: held, because the service no longer has it: 1 of 3 targets gone at once. To approve: workbook-mirror approve 'Accounting/main'",
    ],
    ['a pull that changed nothing', pulled({ method: 'none' }), `Accounting/main: no file changed ${TOOK}`],
    ['one of the manifest alone', pulled({ method: 'manifest' }), `Accounting/main: no file changed ${TOOK}`],
    [
      'a tree without files',
      pulled({ method: 'first', files: 0, added: 0, changed: 0 }),
      `Accounting/main: published an empty tree ${TOOK}`,
    ],
    [
      'removed files',
      pulled({ files: 1, added: 0, changed: 0, removed: 5 }),
      `Accounting/main: published 1 file: 5 removed ${TOOK}`,
    ],
    [
      'a pass with everything',
      { name: 'pass.finished', ...FINISHED, ...EVERYTHING },
      '1 target checked in 1.4 s; 2 pulled (5.0 kB), 1 file changed; 3 of 5 pulls failed; 2 waiting for another try; 3 held; 1 waiting for a lease; 6 missing from the list, kept for now; 1 workbook still being processed by the service',
    ],
    [
      'a pass that left pulls behind',
      { name: 'pass.finished', ...FINISHED, pulling: 1, waiting: 2 },
      '3 targets checked in 1.4 s; nothing to pull; 1 slow pull still going on; 2 pulls waiting',
    ],
    [
      'a hold without an end',
      { name: 'target.held', target: 'Accounting/main', reason: 'superseded', untilMs: null },
      'Accounting/main waits for a named branch to take its place',
    ],
    [
      'one entry',
      { name: 'target.skipped_entries', target: 'Accounting/main', count: 1, first: 'a' },
      'Accounting/main: left out 1 entry (symbolic links and special files are not mirrored), the first is "a"',
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
const OWN: ReadonlySet<string> = new Set(['name', 'subject', 'method', 'trigger', 'credential', 'code']);

/** A value in which every text of foreign origin is replaced. */
function withText(value: object, text: string): unknown {
  const replaced = (name: string, field: unknown): unknown =>
    typeof field === 'string' && !OWN.has(name) ? text : field;
  return JSON.parse(JSON.stringify(value, replaced));
}

/** The control sequences of the log's colours. */
const COLORS = [31, 32, 33, 34, 36, 39].map((code) => `\u001b[${code}m`);

describe('text of others in events', () => {
  const events = fc
    .tuple(fc.constantFrom(...Object.entries(EXAMPLES)), hostileText)
    .map(([[name, fields], text]) => Object.assign({ name }, withText(fields, text)) as MirrorEvent);

  it('is one line of text in the log, as JSON and for people', () => {
    fc.assert(
      fc.property(events, fc.constantFrom('json', 'pretty'), fc.boolean(), (event, format, colors) => {
        const written: string[] = [];
        const write = (line: unknown): number => written.push(String(line));
        createEventLog({ level: 'debug', format, colors, write }).sink(event);
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
        const show = createProgress([], new PullMonitor(), {
          write: (text) => written.push(String(text)),
          isTerminal,
          columns: () => 60,
          loudness: 'verbose',
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
