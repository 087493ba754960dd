import { fstatSync, openSync } from 'node:fs';

import { describe, expect, it, vi } from 'vitest';

import type { MirrorEvent } from '../../../../src/app/events.ts';
import { say } from '../../../../src/lib/text/terminal-text.ts';
import { isJournal, withPriority } from '../../../../src/lib/process/streams.ts';
import { createEventLog, type EventLog, type LoggerOptions } from '../../../../src/daemon/log/logger.ts';

const STOPPING: MirrorEvent = { name: 'daemon.stopping', signal: 'SIGTERM' };
const PROBLEM: MirrorEvent = { name: 'listing.problem', problem: 'odd' };
const RESET: MirrorEvent = { name: 'state.failed', code: 'state.unavailable', message: 'gone', hint: null };
const PLANNED: MirrorEvent = { name: 'pass.planned', pull: 1, keep: 2, hold: 0, retire: 0 };

function logged(options: Partial<LoggerOptions> = {}, journal = false): { log: EventLog; written: string[] } {
  const written: string[] = [];
  const log = createEventLog({
    level: 'info',
    format: 'json',
    colors: false,
    write: (line, level) => written.push(String(journal ? withPriority(line, level) : line)),
    ...options,
  });
  return { log, written };
}

describe('the log', () => {
  it('is one JSON object a line, or a line for people, with its time in UTC', () => {
    vi.useFakeTimers({ now: new Date('2026-03-29T01:30:00.250Z') });
    const [json, people] = [logged(), logged({ format: 'pretty' })];
    for (const { log } of [json, people]) log.sink(STOPPING);
    const facts = { level: 'info', time: '2026-03-29T01:30:00.250Z', pid: process.pid };
    const event = { event: 'daemon.stopping', signal: 'SIGTERM', msg: 'stopping on SIGTERM' };
    expect(json.written.map((line) => JSON.parse(line) as unknown)).toEqual([{ ...facts, ...event }]);
    expect(people.written).toEqual(['[2026-03-29T01:30:00Z] INFO: stopping on SIGTERM\n']);
  });

  it('can change its level while it runs', () => {
    const { log, written } = logged({ level: 'warn' });
    log.sink(STOPPING);
    log.setLevel('debug');
    log.sink(STOPPING);
    log.sink(PLANNED);
    log.setLevel('error');
    log.sink(PROBLEM);
    expect(written).toHaveLength(2);
  });

  it('puts its priority before each JSON line for the journal', () => {
    const { log, written } = logged({ level: 'debug' }, true);
    for (const event of [RESET, PROBLEM, STOPPING, PLANNED]) log.sink(event);
    expect(written.map((line) => line.slice(0, 4))).toEqual(['<3>{', '<4>{', '<6>{', '<7>{']);
    for (const line of written) expect(() => JSON.parse(line.slice(3)) as unknown).not.toThrow();
  });
});

it('a priority of the journal precedes every line of a text that is not empty', () => {
  expect(String(withPriority(say`a\nb\n\n`, 'fatal'))).toBe('<2>a\n<2>b\n\n');
  expect(String(withPriority(say`a\n`, 'trace'))).toBe('<7>a\n');
});

describe('the stream of the journal', () => {
  const descriptor = openSync('/dev/null', 'r');
  const { dev, ino } = fstatSync(descriptor, { bigint: true });

  it.each([
    [`${dev}:${ino}`, true],
    [`${dev}:${ino + 1n}`, false],
    [`${ino}:${dev}`, dev === ino],
    ['', false],
    [undefined, false],
  ])('is what JOURNAL_STREAM names: %j', (value, is) => {
    expect(isJournal({ JOURNAL_STREAM: value }, descriptor)).toBe(is);
  });

  it('is not a closed descriptor', () => {
    expect(isJournal({ JOURNAL_STREAM: '1:1' }, 9999)).toBe(false);
  });
});
