import { expect, it, vi } from 'vitest';

import { createLogOutput } from '../../../../src/daemon/log/log-output.ts';
import { standardOutput } from '../../../../src/lib/process/streams.ts';
import { say, written } from '../../../../src/lib/text/terminal-text.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';

/** A stream that a test makes fail, or slow. */
function startLog() {
  const seen: string[] = [];
  const events: MirrorEvent[] = [];
  const knobs = { error: null as Error | null, waitingBytes: 0 };
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const { write } = createLogOutput((event) => events.push(event), {
    ...standardOutput,
    waitingBytes: () => knobs.waitingBytes,
    write: (text, _, onEnd) => {
      if (knobs.error === null) seen.push(written(text));
      onEnd?.(knobs.error);
    },
  });
  return { seen, events, knobs, line: (text: string) => write(say`${text}\n`, 'info') };
}

it('a failing log is reported once, and counts the lost lines when it works again', () => {
  const { seen, events, knobs, line } = startLog();
  line('first');
  knobs.error = new Error('ENOSPC');
  for (let lines = 0; lines < 3; lines += 1) line('lost');
  expect(events.map(({ name }) => name)).toEqual(['log.failed']);
  knobs.error = null;
  line('second');
  expect(events.at(-1)).toEqual({ name: 'log.resumed', droppedLines: 3 });
  expect(seen).toEqual(['first\n', '\nsecond\n']);
});

it('lines waiting for a slow reader are bounded, and resume once it has caught up', () => {
  const { seen, events, knobs, line } = startLog();
  knobs.waitingBytes = 2 * 1024 * 1024;
  for (let lines = 0; lines < 3; lines += 1) line('lost');
  knobs.waitingBytes = 10;
  line('waits');
  expect(events.map(({ name }) => name)).toEqual(['log.failed']);
  knobs.waitingBytes = 0;
  line('second');
  expect(seen).toEqual(['\nwaits\n', '\nsecond\n']);
  expect(events.at(-1)).toEqual({ name: 'log.resumed', droppedLines: 3 });
});
